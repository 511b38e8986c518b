//! The functions of sqlx that make a statement, for the connections of a [`Database`]. An application without a pooler uses sqlx's own.

use sqlx::{
    FromRow, Postgres,
    postgres::{PgArguments, PgRow},
    query::{Query, QueryAs, QueryScalar},
};

use super::database::Database;

impl Database {
    pub(super) fn query<'q>(&self, sql: &'static str) -> Query<'q, Postgres, PgArguments> {
        sqlx::query(sql).persistent(self.is_persistent())
    }

    pub(super) fn query_as<'q, T: for<'r> FromRow<'r, PgRow>>(
        &self,
        sql: &'static str,
    ) -> QueryAs<'q, Postgres, T, PgArguments> {
        sqlx::query_as(sql).persistent(self.is_persistent())
    }

    pub(super) fn query_scalar<'q, T>(&self, sql: &'static str) -> QueryScalar<'q, Postgres, T, PgArguments>
    where
        (T,): for<'r> FromRow<'r, PgRow>,
    {
        sqlx::query_scalar(sql).persistent(self.is_persistent())
    }
}
