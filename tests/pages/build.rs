//! Tells cargo when to compile the migrations again, and makes a service and its clients out of the snippets of
//! `docs/getting-started.md` and of the README.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=migrations"); // `#[sqlx::test]` does not see a new file by itself
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let readme = Page::read("README.md")?;
    let guide = Page::read("docs/getting-started.md")?;

    fs::write(out.join("orders.proto"), proto(&guide)?)?;
    let mut compiler = protox::Compiler::new([out.as_path(), tonic_idempotency_build::PROTO.as_ref()])?;
    compiler.include_imports(true).open_file("orders.proto")?;
    fs::write(out.join("orders.bin"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure().compile_fds(compiler.file_descriptor_set())?;

    let plain = client("client", &readme.block("rust", "IdempotencyClientLayer::new(")?);
    let with_journal = client("with_journal", &guide.block("rust", "Journal::open(")?);
    fs::write(out.join("newcomer.rs"), [server(&guide)?, handler(&guide)?, plain, with_journal].concat())?;
    Ok(())
}

/// The blocks of code of a page, each with its language.
struct Page {
    name: &'static str,
    blocks: Vec<(String, String)>,
}

impl Page {
    /// Reads the page with this path in the repository.
    fn read(name: &'static str) -> Result<Self, Box<dyn Error>> {
        println!("cargo::rerun-if-changed=../../{name}");
        let page = fs::read_to_string(format!("../../{name}"))?;
        let blocks = page.split("```").skip(1).step_by(2).filter_map(|block| {
            let (language, code) = block.split_once('\n')?;
            Some((language.to_owned(), code.to_owned()))
        });
        Ok(Self { name, blocks: blocks.collect() })
    }

    /// The first block of this language that has this text. It hides nothing: its readers see all of it.
    fn block(&self, language: &str, text: &str) -> Result<String, Box<dyn Error>> {
        let found = self.blocks.iter().find(|(its, code)| its.starts_with(language) && code.contains(text));
        let (_, code) = found.ok_or_else(|| format!("{} has no block of {language} with {text}", self.name))?;
        if code.lines().any(|line| line.starts_with("# ")) {
            return Err(format!("{} hides a line of the block with {text}", self.name).into());
        }
        Ok(code.clone())
    }
}

fn proto(guide: &Page) -> Result<String, Box<dyn Error>> {
    let service = guide.block("proto", "service OrderService")?;
    Ok(format!(
        "syntax = \"proto3\";\npackage orders.v1;\n{service}\nmessage CreateOrderRequest {{ string item = 1; }}\n\
         message CreateOrderResponse {{ string order_id = 1; }}\n"
    ))
}

/// The server, at an address that the test chooses.
fn server(guide: &Page) -> Result<String, Box<dyn Error>> {
    let server = guide.block("rust", "async fn serve(")?;
    let server = replaced(&server, "\"[::1]:50051\".parse()?", "address")?;
    let server =
        replaced(&server, "orders: impl OrderService)", "orders: impl OrderService, address: std::net::SocketAddr)")?;
    let server = replaced(&server, "async fn serve", "pub async fn serve")?;
    Ok(format!(
        "pub mod server {{\nuse super::{{FILE_DESCRIPTOR_SET, proto::order_service_server::*, verify}};\n{server}}}\n"
    ))
}

fn handler(guide: &Page) -> Result<String, Box<dyn Error>> {
    let handler = guide.block("rust", "async fn create_order(")?;
    let (uses, function): (Vec<_>, Vec<_>) = handler.lines().partition(|line| line.starts_with("use "));
    Ok(format!(
        "pub mod handler {{\nuse super::proto::{{*, order_service_server::OrderService}};\n\
         use tonic::{{Request, Response, Status}};\n{}\npub struct Orders;\n#[tonic::async_trait]\n\
         impl OrderService for Orders {{\n{}\n}}\n}}\n",
        uses.join("\n"),
        function.join("\n")
    ))
}

/// A function of this name that makes a client, in a module of the same name.
fn client(name: &str, code: &str) -> String {
    let code = code.replace("\"orders.journal\"", "journal");
    let (uses, lines): (Vec<_>, Vec<_>) = code.lines().partition(|line| line.starts_with("use "));
    format!(
        "pub mod {name} {{\nuse super::{{FILE_DESCRIPTOR_SET, proto::order_service_client::OrderServiceClient}};\n{}\n\
         pub type Client = OrderServiceClient<tonic_idempotency_client::IdempotencyClient<tonic::transport::Channel>>;\n\
         #[allow(unused_mut, unused_variables)]\n\
         pub fn {name}(channel: tonic::transport::Channel, journal: &std::path::Path) -> \
         Result<Client, Box<dyn std::error::Error>> {{\n{}\nOk(orders)\n}}\n}}\n",
        uses.join("\n"),
        lines.join("\n")
    )
}

fn replaced(code: &str, text: &str, by: &str) -> Result<String, Box<dyn Error>> {
    if !code.contains(text) {
        return Err(format!("the snippet has no {text}").into());
    }
    Ok(code.replacen(text, by, 1))
}
