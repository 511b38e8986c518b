//! Authentication by JWT bearer tokens.

use std::{
    fmt,
    time::{Duration, SystemTime, SystemTimeError},
};

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use tonic::{Request, Status, service::Interceptor};
use tonic_idempotency::{OwnerId, Scope, UserId, layer::InvalidCallerId};
use uuid::Uuid;

use crate::error::Error;

/// The lifetime of a token: longer than the sample is likely to run.
const LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The authenticated user of a call as the handlers know it, stored in the request's extensions.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The id of the user's row in `tenant.users`: the owner of the user's records in the idempotency layer. For `alice`,
    /// whose id is a UUID, that is this UUID. A user of an identity provider, such as `auth0|x`, has a row in each
    /// organisation, whose id follows from both names: so neither a table nor a look-up is needed to find it, and a
    /// reconciler, which is told nothing but the owner, can act as the user.
    pub user: Uuid,
}

impl Caller {
    pub(crate) fn of_owner(owner: OwnerId) -> Self {
        Self { user: *owner.as_uuid() }
    }

    /// Returns the caller of a request that passed [`Authentication`].
    ///
    /// # Errors
    ///
    /// `UNAUTHENTICATED` if the request did not.
    pub(crate) fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        request.extensions().get().copied().ok_or_else(|| Status::unauthenticated("no authenticated user"))
    }
}

/// An interceptor that accepts requests with a bearer token of this process. It adds the user to the request, as a
/// [`Caller`] for the handlers and as a [`tonic_idempotency::Caller`] for the idempotency layer.
#[derive(Clone)]
pub(crate) struct Authentication {
    key: DecodingKey,
    validation: Validation,
}

impl Authentication {
    fn authenticate(&self, request: &Request<()>) -> Result<tonic_idempotency::Caller, Status> {
        let header = request
            .metadata()
            .get("authorization")
            .ok_or_else(|| Status::unauthenticated("missing credentials: send `authorization: Bearer <token>`"))?;
        let (scheme, token) = header.to_str().ok().and_then(|value| value.split_once(' ')).unwrap_or_default();
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Status::unauthenticated("invalid `authorization`: expected `Bearer <token>`"));
        }
        let claims = jsonwebtoken::decode::<Claims>(token.trim(), &self.key, &self.validation)
            .map_err(|error| Status::unauthenticated(format!("invalid bearer token: {error}")))?
            .claims;
        claims.caller().map_err(|error| Status::unauthenticated(format!("invalid bearer token: {error}")))
    }
}

impl Interceptor for Authentication {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let caller = self.authenticate(&request)?;
        request.extensions_mut().insert(Caller::of_owner(caller.owner()));
        request.extensions_mut().insert(caller);
        Ok(request)
    }
}

impl fmt::Debug for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authentication").finish_non_exhaustive()
    }
}

/// Issues tokens, signed with a secret: the one that is given, or a random one that exists only in this process.
pub(crate) struct Issuer {
    secret: Vec<u8>,
}

impl Issuer {
    pub(crate) fn new(secret: Option<String>) -> Result<Self, getrandom::Error> {
        if let Some(secret) = secret {
            return Ok(Self { secret: secret.into_bytes() });
        }
        let mut secret = vec![0; 32];
        getrandom::fill(&mut secret)?;
        Ok(Self { secret })
    }

    /// Issues a token of a user, in an organisation if the user may be in several.
    pub(crate) fn token(&self, user: &str, organization: Option<Uuid>) -> Result<String, Error> {
        let claims = Claims { sub: user.to_owned(), org: organization, exp: expiry()? };
        let key = EncodingKey::from_secret(&self.secret);
        Ok(jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key)?)
    }

    pub(crate) fn authentication(&self) -> Authentication {
        Authentication { key: DecodingKey::from_secret(&self.secret), validation: Validation::new(Algorithm::HS256) }
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").finish_non_exhaustive()
    }
}

#[derive(Deserialize, Serialize)]
struct Claims {
    sub: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    org: Option<Uuid>,
    exp: u64,
}

impl Claims {
    fn caller(&self) -> Result<tonic_idempotency::Caller, InvalidCallerId> {
        let caller = tonic_idempotency::Caller::new(UserId::from_text(&self.sub)?);
        Ok(match self.org {
            Some(organization) => caller.in_scope(Scope::new(organization)),
            None => caller,
        })
    }
}

fn expiry() -> Result<u64, SystemTimeError> {
    Ok((SystemTime::now() + LIFETIME).duration_since(SystemTime::UNIX_EPOCH)?.as_secs())
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    const USER: Uuid = Uuid::from_u128(7);

    fn call(issuer: &Issuer, authorization: Option<String>) -> Result<Request<()>, Status> {
        let mut request = Request::new(());
        if let Some(value) = authorization {
            request.metadata_mut().insert("authorization", value.parse().expect("a header value"));
        }
        issuer.authentication().call(request)
    }

    #[test]
    fn accepts_its_own_token() {
        let issuer = Issuer::new(None).expect("random numbers");
        let token = issuer.token(&USER.to_string(), None).expect("a token");
        let request = call(&issuer, Some(format!("Bearer {token}"))).expect("let in");
        assert_eq!(Caller::of(&request).expect("a caller").user, USER);
        let caller = request.extensions().get::<tonic_idempotency::Caller>().expect("a caller");
        assert_eq!(caller, &tonic_idempotency::Caller::new(UserId::new(USER)));
    }

    #[test]
    fn takes_one_user_in_two_organizations_for_two() {
        let issuer = Issuer::new(None).expect("random numbers");
        let [one, other] = [1, 2].map(|organization| {
            let token = issuer.token("auth0|x", Some(Uuid::from_u128(organization))).expect("a token");
            let request = call(&issuer, Some(format!("Bearer {token}"))).expect("let in");
            Caller::of(&request).expect("a caller").user
        });
        assert_ne!(one, other);
    }

    #[test]
    fn refuses_missing_malformed_and_foreign_credentials() {
        let issuer = Issuer::new(None).expect("random numbers");
        let other = Issuer::new(None).expect("random numbers").token("alice", None).expect("a token");
        for authorization in [
            None,
            Some(String::new()),
            Some("Bearer".to_owned()),
            Some("Bearer x.y.z".to_owned()),
            Some(format!("Bearer {other}")),
            Some(format!("Basic {}", issuer.token("alice", None).expect("a token"))),
            Some(format!("Bearer {}", issuer.token("", None).expect("a token"))),
        ] {
            let status = call(&issuer, authorization.clone()).expect_err("refused");
            assert_eq!(status.code(), Code::Unauthenticated, "{authorization:?}");
        }
    }
}
