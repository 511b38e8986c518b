package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// store has the statements of the founding design, each in a transaction with the user set, which row-level security asks for.
type store struct {
	pool *pgxpool.Pool
}

// record is a row of tenant.idempotency_keys.
type record struct {
	procedure string
	hash      []byte
	// response is nil while the first call runs.
	response []byte
	project  *string
}

func (s *store) lookUp(ctx context.Context, call *call) (*record, error) {
	var found *record
	err := s.asUser(ctx, call.user, func(transaction pgx.Tx) error {
		row := transaction.QueryRow(ctx,
			`SELECT procedure, request_hash, response_bytes, project_id::text
			 FROM tenant.idempotency_keys WHERE idempotency_key = $1 AND user_id = $2`,
			call.key, call.user)
		var read record
		err := row.Scan(&read.procedure, &read.hash, &read.response, &read.project)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		found = &read
		return err
	})
	return found, err
}

// reserve returns whether the key was free.
func (s *store) reserve(ctx context.Context, call *call) (bool, error) {
	reserved := false
	err := s.asUser(ctx, call.user, func(transaction pgx.Tx) error {
		done, err := transaction.Exec(ctx,
			`INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires)
			 VALUES ($1, $2, $3, $4, now() + interval '24 hours')
			 ON CONFLICT (idempotency_key, user_id) DO NOTHING`,
			call.key, call.user, procedure, call.hash)
		reserved = done.RowsAffected() == 1
		return err
	})
	return reserved, err
}

func (s *store) complete(ctx context.Context, call *call, response []byte, project string) error {
	return s.asUser(ctx, call.user, func(transaction pgx.Tx) error {
		_, err := transaction.Exec(ctx,
			`UPDATE tenant.idempotency_keys SET response_bytes = $3, project_id = $4
			 WHERE idempotency_key = $1 AND user_id = $2 AND response_bytes IS NULL`,
			call.key, call.user, response, project)
		return err
	})
}

func (s *store) unreserve(ctx context.Context, call *call) error {
	return s.asUser(ctx, call.user, func(transaction pgx.Tx) error {
		_, err := transaction.Exec(ctx,
			`DELETE FROM tenant.idempotency_keys
			 WHERE idempotency_key = $1 AND user_id = $2 AND response_bytes IS NULL`,
			call.key, call.user)
		return err
	})
}

// status returns how far the asynchronous work behind a project is: "processing" if that is not known.
func (s *store) status(ctx context.Context, call *call, record *record) string {
	var status string
	err := s.asUser(ctx, call.user, func(transaction pgx.Tx) error {
		row := transaction.QueryRow(ctx,
			`SELECT status FROM authz.outbox WHERE project_id = $1 ORDER BY id DESC LIMIT 1`, record.project)
		return row.Scan(&status)
	})
	if err == nil && (status == "completed" || status == "failed") {
		return status
	}
	return "processing"
}

func (s *store) asUser(ctx context.Context, user string, work func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.pool, func(transaction pgx.Tx) error {
		if _, err := transaction.Exec(ctx, "SELECT set_config('app.current_user_id', $1, true)", user); err != nil {
			return err
		}
		return work(transaction)
	})
}
