//! The statements that several calls share, with the parameters of those calls.

use crate::prelude::*;

/// A parameter with its type.
type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// The outcome that a call records.
#[derive(Clone, Copy)]
pub(crate) struct Outcome<'a> {
    pub(crate) response: Option<&'a [u8]>,
    pub(crate) not_stored: bool,
    pub(crate) error: Option<&'a [u8]>,
    pub(crate) metadata: Option<&'a [u8]>,
    /// The column of the resource, and its id.
    pub(crate) resource: Option<(&'a str, &'a str)>,
}

impl Outcome<'_> {
    pub(crate) const DONE: Outcome<'static> =
        Outcome { response: Some(b"done"), not_stored: false, error: None, metadata: None, resource: None };
}

struct Reservations([Vec<Uuid>; 3]);

impl Reservations {
    fn new(reservations: &[Reservation]) -> Self {
        Self([
            reservations.iter().map(|it| *it.owner.as_uuid()).collect(),
            reservations.iter().map(|it| *it.key.as_uuid()).collect(),
            reservations.iter().map(|it| it.token).collect(),
        ])
    }

    fn parameters(&self) -> Vec<Parameter<'_>> {
        self.0.iter().map(|ids| (ids as _, Type::UUID_ARRAY)).collect()
    }
}

/// Returns for each reservation whether its token is in this column.
fn changed(row: &Row, column: &str, reservations: &[Reservation]) -> Vec<bool> {
    let changed: Option<&[u8]> = row.get(column);
    let tokens = changed.unwrap_or_default().chunks(16).map(|token| Uuid::from_slice(token).expect("a token"));
    let tokens: HashSet<_> = tokens.collect();
    reservations.iter().map(|it| tokens.contains(&it.token)).collect()
}

pub(crate) async fn reserve(client: &Client, claims: &[&Claim]) -> Result<Vec<bool>, Error> {
    Ok(write(client, claims, &[], &[]).await?.0)
}

pub(crate) async fn complete(
    client: &Client,
    reservations: &[Reservation],
    outcomes: &[Outcome<'_>],
) -> Result<Vec<bool>, Error> {
    Ok(write(client, &[], reservations, outcomes).await?.1)
}

/// Reserves the keys of claims and completes other keys. Returns which claims reserved their keys, and which keys were
/// completed.
pub(crate) async fn write(
    client: &Client,
    claims: &[&Claim],
    done: &[Reservation],
    outcomes: &[Outcome<'_>],
) -> Result<(Vec<bool>, Vec<bool>), Error> {
    let reservations: Vec<_> = claims.iter().map(|claim| claim.reservation).collect();
    let procedures: Vec<_> = claims.iter().map(|claim| claim.procedure.as_str()).collect();
    let hashes = vec![HASH.as_slice(); claims.len()];
    let arrivals = vec![None::<&[u8]>; claims.len()];
    let leases: Vec<_> = claims.iter().map(|claim| claim.lease.as_secs_f64()).collect();
    let retentions: Vec<_> = claims.iter().map(|claim| claim.retention.as_secs_f64()).collect();
    let users: Vec<_> = claims.iter().map(|claim| claim.session.user).collect();
    let settings = settings(claims);
    let responses: Vec<_> = outcomes.iter().map(|it| it.response).collect();
    let not_stored: Vec<_> = outcomes.iter().map(|it| it.not_stored).collect();
    let errors: Vec<_> = outcomes.iter().map(|it| it.error).collect();
    let metadata: Vec<_> = outcomes.iter().map(|it| it.metadata).collect();
    let done_retentions = vec![HOUR.as_secs_f64(); outcomes.len()];
    let columns: Vec<_> = outcomes.iter().map(|it| it.resource.map(|(column, _)| column)).collect();
    let resources: Vec<_> = outcomes.iter().map(|it| it.resource.map(|(_, id)| id)).collect();
    let [reserved, completed] = [Reservations::new(&reservations), Reservations::new(done)];
    let mut all = reserved.parameters();
    all.extend::<[Parameter<'_>; 9]>([
        (&procedures, Type::TEXT_ARRAY),
        (&hashes, Type::BYTEA_ARRAY),
        (&arrivals, Type::BYTEA_ARRAY),
        (&leases, Type::FLOAT8_ARRAY),
        (&retentions, Type::FLOAT8_ARRAY),
        (&false, Type::BOOL),
        (&users, Type::UUID_ARRAY),
        (&settings, Type::TEXT_ARRAY),
        (&f64::INFINITY, Type::FLOAT8),
    ]);
    all.extend(completed.parameters());
    all.extend::<[Parameter<'_>; 7]>([
        (&responses, Type::BYTEA_ARRAY),
        (&not_stored, Type::BOOL_ARRAY),
        (&errors, Type::BYTEA_ARRAY),
        (&metadata, Type::BYTEA_ARRAY),
        (&done_retentions, Type::FLOAT8_ARRAY),
        (&columns, Type::TEXT_ARRAY),
        (&resources, Type::TEXT_ARRAY),
    ]);
    let places: String = (1..=all.len()).map(|place| format!("${place}, ")).collect();
    let row =
        client.query_typed(&format!("CALL tenant.idempotency_write_many({places}NULL, NULL, NULL)"), &all).await?;
    Ok((changed(&row[0], "reserved", &reservations), changed(&row[0], "completed", done)))
}

/// Looks at the keys of claims. Returns their rows; `None` for a key without one.
pub(crate) async fn look(client: &Client, claims: &[&Claim]) -> Result<Vec<Option<Row>>, Error> {
    let reservations: Vec<_> = claims.iter().map(|claim| claim.reservation).collect();
    let ids = Reservations::new(&reservations);
    let types: Vec<_> = claims.iter().map(|claim| claim.resource_type.as_deref()).collect();
    let users: Vec<_> = claims.iter().map(|claim| claim.session.user).collect();
    let settings = settings(claims);
    let mut parameters = ids.parameters();
    parameters.extend::<[Parameter<'_>; 3]>([
        (&types, Type::TEXT_ARRAY),
        (&users, Type::UUID_ARRAY),
        (&settings, Type::TEXT_ARRAY),
    ]);
    let select = "SELECT * FROM tenant.idempotency_look($1, $2, $3, $4, $5, $6)";
    let mut found: Vec<_> = claims.iter().map(|_| None).collect();
    for row in client.query_typed(select, &parameters).await? {
        let item = usize::try_from(row.get::<_, i64>("item")).expect("a number");
        assert!(row.get::<_, f64>("age") < 60.0, "a transaction of its own");
        if row.get::<_, Option<&str>>("recorded_procedure").is_some() {
            assert!(found[item - 1].replace(row).is_none(), "one row for each key");
        }
    }
    Ok(found)
}

/// Returns a column of the rows; `None` where there is no row.
pub(crate) fn texts(rows: &[Option<Row>], column: &str) -> Vec<Option<String>> {
    rows.iter().map(|row| row.as_ref()?.get(column)).collect()
}

fn settings(claims: &[&Claim]) -> Option<Vec<String>> {
    let settings = claims.iter().filter_map(|claim| claim.session.settings.as_deref());
    let settings: Vec<_> = settings.flat_map(SessionSettings::iter).flat_map(|(name, value)| [name, value]).collect();
    (!settings.is_empty()).then(|| settings.into_iter().map(str::to_owned).collect())
}

/// All columns of a key's row as one text; `None` if there is no row.
pub(crate) async fn row(database: &Database, claim: &Claim) -> Option<String> {
    let Reservation { owner, key, .. } = claim.reservation;
    let select = "SELECT k::text FROM tenant.idempotency_keys k WHERE user_id = $1 AND idempotency_key = $2";
    let parameters: &[Parameter<'_>] = &[(owner.as_uuid(), Type::UUID), (key.as_uuid(), Type::UUID)];
    let rows = database.owner().await.query_typed(select, parameters).await.expect("the row");
    rows.first().map(|row| row.get(0))
}
