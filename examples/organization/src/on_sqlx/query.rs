//! The functions of sqlx that make a statement. Each statement is prepared for one use: `API_DATABASE_URL` may be the way
//! of a PgBouncer in transaction mode, where the next transaction does not find it. Without such a pooler use sqlx's own.

use sqlx::{
    FromRow, Postgres,
    postgres::{PgArguments, PgRow},
    query::{Query, QueryAs, QueryScalar},
};

pub(super) fn query<'q>(sql: &'static str) -> Query<'q, Postgres, PgArguments> {
    sqlx::query(sql).persistent(false)
}

pub(super) fn query_as<'q, T: for<'r> FromRow<'r, PgRow>>(sql: &'static str) -> QueryAs<'q, Postgres, T, PgArguments> {
    sqlx::query_as(sql).persistent(false)
}

pub(super) fn query_scalar<'q, T>(sql: &'static str) -> QueryScalar<'q, Postgres, T, PgArguments>
where
    (T,): for<'r> FromRow<'r, PgRow>,
{
    sqlx::query_scalar(sql).persistent(false)
}
