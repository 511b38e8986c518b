use std::{collections::BTreeSet, env, fs, io, path::PathBuf};

use super::*;

/// Each kind of error that the client makes itself.
const OF_THE_CLIENT: [(ErrorKind, Fault); 11] = [
    (ErrorKind::AuthenticationFailed, Fault::Refused),
    (ErrorKind::Client, Fault::Refused),
    (ErrorKind::ClusterConnectionNotFound, Fault::Away),
    (ErrorKind::EmptySentinelList, Fault::Refused),
    (ErrorKind::InvalidClientConfig, Fault::Refused),
    (ErrorKind::Io, Fault::Away),
    (ErrorKind::MasterNameNotFoundBySentinel, Fault::Away),
    (ErrorKind::NoValidReplicasFoundBySentinel, Fault::Refused),
    (ErrorKind::Parse, Fault::Corrupt),
    (ErrorKind::RESP3NotSupported, Fault::Refused),
    (ErrorKind::UnexpectedReturnType, Fault::Corrupt),
];

/// Each kind of error of the server that the client knows, with its code.
const OF_THE_SERVER: [(ServerErrorKind, &str, Fault); 14] = [
    (ServerErrorKind::Ask, "ASK", Fault::Busy),
    (ServerErrorKind::BusyLoading, "LOADING", Fault::Away),
    (ServerErrorKind::ClusterDown, "CLUSTERDOWN", Fault::Away),
    (ServerErrorKind::CrossSlot, "CROSSSLOT", Fault::Refused),
    (ServerErrorKind::ExecAbort, "EXECABORT", Fault::Refused),
    (ServerErrorKind::MasterDown, "MASTERDOWN", Fault::Away),
    (ServerErrorKind::Moved, "MOVED", Fault::Busy),
    (ServerErrorKind::NoPerm, "NOPERM", Fault::Refused),
    (ServerErrorKind::NoScript, "NOSCRIPT", Fault::Refused),
    (ServerErrorKind::NoSub, "NOSUB", Fault::Refused),
    (ServerErrorKind::NotBusy, "NOTBUSY", Fault::Refused),
    (ServerErrorKind::ReadOnly, "READONLY", Fault::Replica),
    (ServerErrorKind::ResponseError, "ERR", Fault::Refused),
    (ServerErrorKind::TryAgain, "TRYAGAIN", Fault::Busy),
];

/// Codes of the server that the client has no name for.
const OTHERS: [(&str, Fault); 9] = [
    ("BUSY", Fault::Busy),
    ("MISCONF", Fault::ReadOnly),
    ("NOAUTH", Fault::Refused),
    ("NOREPLICAS", Fault::ReadOnly),
    ("OOM", Fault::ReadOnly),
    ("UNBLOCKED", Fault::Away),
    ("WRONGPASS", Fault::Refused),
    ("WRONGTYPE", Fault::Corrupt),
    ("XNEW", Fault::Refused),
];

/// Calls may run unprotected only if the store cannot be asked.
#[test]
fn only_what_is_away_cannot_be_asked() {
    for (fault, kind) in [
        (Fault::Away, StoreErrorKind::Unreachable),
        (Fault::Busy, StoreErrorKind::Overloaded),
        (Fault::Corrupt, StoreErrorKind::Corrupt),
        (Fault::ReadOnly, StoreErrorKind::Overloaded),
        (Fault::Refused, StoreErrorKind::Refused),
        (Fault::Replica, StoreErrorKind::Overloaded),
    ] {
        assert_eq!(fault.kind(false), kind, "{fault:?}");
        let after_a_lost_answer = if fault == Fault::Away { StoreErrorKind::Interrupted } else { kind };
        assert_eq!(fault.kind(true), after_a_lost_answer, "{fault:?}");
        assert_eq!(kind.is_unavailable(), fault == Fault::Away, "{fault:?}");
    }
}

#[test]
fn knows_each_kind_of_error_of_the_client() {
    for (kind, fault) in OF_THE_CLIENT {
        let error = || RedisError::from((kind, "of a test"));
        assert_eq!(Failure::NotSent(error()).fault(), fault, "{kind:?}");
        let failure = Failure::Lost(error());
        assert_eq!((failure.fault(), failure.may_have_happened()), (fault, true), "{kind:?}");
        assert_eq!(failure.is_silence(), fault == Fault::Away, "{kind:?}");
    }
    assert_eq!(Failure::Lost(io::Error::from(io::ErrorKind::UnexpectedEof).into()).fault(), Fault::Away);
}

#[test]
fn knows_each_kind_of_error_of_the_server() {
    let known = OF_THE_SERVER.map(|(kind, code, fault)| {
        assert_eq!(answer(code).kind(), Some(kind), "{code}");
        let error = RedisError::from((kind.into(), "the client tells what the server said"));
        assert_eq!(Failure::NotSent(error).fault(), fault, "{code}");
        (code, fault)
    });
    for (code, fault) in known.into_iter().chain(OTHERS) {
        let failure = Failure::Answered(answer(code));
        assert_eq!(
            (failure.fault(), failure.may_have_happened(), failure.is_silence()),
            (fault, false, false),
            "{code}"
        );
        // A cluster's client has sent the command several times. Some of these may have been carried out.
        let failure = Failure::Lost(answer(code).into());
        assert_eq!((failure.fault(), failure.may_have_happened()), (fault, true), "{code}");
    }
}

/// A later version of the client may have other errors: each needs a place in the table.
#[test]
fn the_client_has_no_other_kinds_of_errors() {
    let name = |kind: &dyn std::fmt::Debug| format!("{kind:?}");
    let of_client: BTreeSet<_> = OF_THE_CLIENT.iter().map(|(kind, _)| name(kind)).collect();
    // The server's kinds are below. `Serialize` belongs to the client's feature `json`, which has nothing to do with this store.
    let others = ["Extension", "Serialize", "Server"].map(str::to_owned);
    assert_eq!(variants("/errors/redis_error.rs", "ErrorKind"), of_client.into_iter().chain(others).collect());
    let of_server: BTreeSet<_> = OF_THE_SERVER.iter().map(|(kind, ..)| name(kind)).collect();
    assert_eq!(variants("/errors/server_error.rs", "ServerErrorKind"), of_server);
}

#[test]
fn a_server_without_a_free_connection_is_busy() {
    let Ok(redis::Value::ServerError(error)) = redis::parse_redis_value(b"-ERR max number of clients reached\r\n")
    else {
        panic!("not an error")
    };
    assert_eq!(Failure::Answered(error.clone()).fault(), Fault::Busy);
    assert_eq!(of_cluster(&RedisError::from(error)), Fault::Busy);
}

/// If no node of a cluster lets the client in, the client gives the reason only as a text.
#[test]
fn knows_why_there_is_no_connection_to_a_cluster() {
    for (kind, fault) in OF_THE_CLIENT {
        // These kinds do not come from a connection. They come from Sentinels, from commands, or from this text.
        let is_of_a_connection = !matches!(
            kind,
            ErrorKind::Client
                | ErrorKind::EmptySentinelList
                | ErrorKind::NoValidReplicasFoundBySentinel
                | ErrorKind::Parse
                | ErrorKind::UnexpectedReturnType
        );
        if is_of_a_connection {
            assert_eq!(of_cluster(&RedisError::from((kind, "of a test"))), fault, "{kind:?}");
        }
    }
    for code in ["NOAUTH", "NOPERM", "WRONGPASS", "ERR"] {
        assert_eq!(of_cluster(&answer(code).into()), Fault::Refused, "{code}");
    }
    assert_eq!(of_cluster(&answer("LOADING").into()), Fault::Away);
    let garbage = redis::parse_redis_value(b"HTTP/1.1 400 Bad Request\r\n").expect_err("not an answer");
    assert_eq!((Fault::of_error(&garbage), of_cluster(&garbage)), (Fault::Corrupt, Fault::Corrupt));
    let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
    assert_eq!(of_cluster(&refused.into()), Fault::Away);
}

fn of_cluster(reason: &RedisError) -> Fault {
    let text = (ErrorKind::Io, "Failed to create initial connections", reason.to_string());
    Failure::NotSent(RedisError::from(text)).fault()
}

fn answer(code: &str) -> ServerError {
    match redis::parse_redis_value(format!("-{code} of a test\r\n").as_bytes()) {
        Ok(redis::Value::ServerError(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Reads the variants of an enum from the source of the client. The enum may grow, and no `match` would notice that.
fn variants(file: &str, of: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(source(file)).expect("the source of the client");
    let (_, body) = text.split_once(&format!("pub enum {of} {{\n")).expect("the enum");
    let (body, _) = body.split_once("\n}").expect("its end");
    let lines = body.lines().map(str::trim).filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    lines.filter_map(|line| line.split(['(', ',']).next()).map(str::to_owned).collect()
}

/// Returns the path of a source file of the client. If several clients were built, this is the file of the last one. The compiler has noted
/// the paths as dependencies, in files beside this program.
fn source(file: &str) -> PathBuf {
    let program = env::current_exe().expect("a path");
    let files = fs::read_dir(program.parent().expect("a directory")).expect("a directory");
    let notes = files.filter_map(|entry| entry.ok().map(|entry| entry.path())).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("redis-") && name.ends_with(".d")
    });
    let found = notes.filter_map(|path| {
        let text = fs::read_to_string(&path).ok()?;
        let source =
            text.split_whitespace().map(|word| word.trim_end_matches(':')).find(|word| word.ends_with(file))?;
        Some((fs::metadata(&path).ok()?.modified().ok()?, PathBuf::from(source)))
    });
    found.max().expect("the client was built").1
}
