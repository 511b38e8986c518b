//! Servers in containers.

use scratch_postgres::{Server, Source, skip};

use crate::{
    owner::{ENDINGS, Owner, Scene},
    traces::{ask, output, wait_until},
};

/// A server; `None` if containers cannot run here.
async fn server() -> Option<Server> {
    Server::start(&[Source::Container]).await.map_err(|error| skip("container", error)).ok()
}

/// The container of the server at `url`, by its host name.
async fn container(url: &str) -> String {
    ask(url, "SELECT trim(pg_read_file('/etc/hostname'), E' \\n')").await
}

fn exists(container: &str) -> bool {
    let filter = format!("id={container}");
    !output("docker", &["ps", "--all", "--quiet", "--filter", &filter]).trim().is_empty()
}

#[tokio::test]
async fn is_gone_once_its_value_is() {
    for way in ["stop", "a drop", "a drop in a task"] {
        let Some(server) = server().await else { return };
        let container = container(server.url()).await;
        assert!(exists(&container), "{way}");

        match way {
            "stop" => server.stop().await,
            "a drop" => drop(server),
            _ => tokio::spawn(async move { drop(server) }).await.expect("no panic"),
        }

        assert!(!exists(&container), "{way}");
    }
}

#[tokio::test]
async fn is_gone_however_its_owner_ends() {
    if server().await.is_none() {
        return;
    }
    for ending in ENDINGS {
        let owner = Owner::start("container");
        let container = container(&owner.url).await;

        owner.end(ending);

        wait_until(&format!("{container} is gone after {ending:?}"), || !exists(&container));
    }
}

#[tokio::test]
async fn is_gone_when_its_owner_is_killed_while_it_starts() {
    if server().await.is_none() {
        return;
    }
    let owner_only = |_: &str| true;
    for stage in [owner_only, exists_by_name] {
        let scene = Scene::new("container");
        let child = scene.start();
        wait_until("there is a supervisor", || supervised(child.id()).is_some());
        let name = supervised(child.id()).expect("a supervisor");
        wait_until("the stage is reached", || stage(&name));

        scene.kill(child);

        wait_until(&format!("{name} is gone"), || {
            !exists_by_name(&name) && !output("ps", &["-A", "-o", "args="]).contains(&name)
        });
    }
}

fn exists_by_name(name: &str) -> bool {
    let filter = format!("name={name}");
    !output("docker", &["ps", "--all", "--quiet", "--filter", &filter]).trim().is_empty()
}

/// The name of the container that the child of `process` supervises.
fn supervised(process: u32) -> Option<String> {
    let processes = output("ps", &["-A", "-ww", "-o", "ppid=", "-o", "args="]);
    let parent = process.to_string();
    let supervisor = processes.lines().find(|line| line.split_whitespace().next() == Some(&parent))?;
    let name = supervisor.split_whitespace().last()?;
    name.starts_with("scratch-postgres-").then(|| name.to_owned())
}
