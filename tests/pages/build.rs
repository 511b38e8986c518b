//! Tells cargo when to compile the migrations again, and makes a service and its client out of the README's snippets.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=migrations"); // `#[sqlx::test]` does not see a new file by itself
    println!("cargo::rerun-if-changed=../../README.md");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let readme = Readme::read()?;

    fs::write(out.join("orders.proto"), readme.proto()?)?;
    let mut compiler = protox::Compiler::new([out.as_path(), tonic_idempotency_build::PROTO.as_ref()])?;
    compiler.include_imports(true).open_file("orders.proto")?;
    fs::write(out.join("orders.bin"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure().compile_fds(compiler.file_descriptor_set())?;

    fs::write(out.join("newcomer.rs"), [readme.server()?, readme.handler()?, readme.clients()?].concat())?;
    Ok(())
}

/// The blocks of code of the README, each with its language.
struct Readme {
    blocks: Vec<(String, String)>,
}

impl Readme {
    fn read() -> Result<Self, Box<dyn Error>> {
        let page = fs::read_to_string("../../README.md")?;
        let blocks = page.split("```").skip(1).step_by(2).filter_map(|block| {
            let (language, code) = block.split_once('\n')?;
            Some((language.to_owned(), code.to_owned()))
        });
        Ok(Self { blocks: blocks.collect() })
    }

    /// The first block of this language that has this text. It hides nothing: its readers see all of it.
    fn block(&self, language: &str, text: &str) -> Result<String, Box<dyn Error>> {
        let found = self.blocks.iter().find(|(its, code)| its.starts_with(language) && code.contains(text));
        let (_, code) = found.ok_or_else(|| format!("the README has no block of {language} with {text}"))?;
        if code.lines().any(|line| line.starts_with("# ")) {
            return Err(format!("the README hides a line of the block with {text}").into());
        }
        Ok(code.clone())
    }

    fn proto(&self) -> Result<String, Box<dyn Error>> {
        let service = self.block("proto", "service OrderService")?;
        Ok(format!(
            "syntax = \"proto3\";\npackage orders.v1;\n{service}\nmessage CreateOrderRequest {{ string item = 1; }}\n\
             message CreateOrderResponse {{ string order_id = 1; }}\n"
        ))
    }

    /// The server, at an address that the test chooses.
    fn server(&self) -> Result<String, Box<dyn Error>> {
        let server = self.block("rust", "async fn serve(")?;
        let server = replaced(&server, "\"[::1]:50051\".parse()?", "address")?;
        let server = replaced(
            &server,
            "orders: impl OrderService)",
            "orders: impl OrderService, address: std::net::SocketAddr)",
        )?;
        let server = replaced(&server, "async fn serve", "pub async fn serve")?;
        Ok(format!(
            "pub mod server {{\nuse super::{{FILE_DESCRIPTOR_SET, proto::order_service_server::*, verify}};\n{server}}}\n"
        ))
    }

    fn handler(&self) -> Result<String, Box<dyn Error>> {
        let handler = self.block("rust", "async fn create_order(")?;
        let (uses, function): (Vec<_>, Vec<_>) = handler.lines().partition(|line| line.starts_with("use "));
        Ok(format!(
            "pub mod handler {{\nuse super::proto::{{*, order_service_server::OrderService}};\n\
             use tonic::{{Request, Response, Status}};\n{}\npub struct Orders;\n#[tonic::async_trait]\n\
             impl OrderService for Orders {{\n{}\n}}\n}}\n",
            uses.join("\n"),
            function.join("\n")
        ))
    }

    /// The clients without a journal, and with one.
    fn clients(&self) -> Result<String, Box<dyn Error>> {
        let mut clients = String::new();
        for (name, its) in [("client", "IdempotencyClientLayer::new("), ("with_journal", "Journal::open(")] {
            let client = self.block("rust", its)?.replace("\"orders.journal\"", "journal");
            let (uses, lines): (Vec<_>, Vec<_>) = client.lines().partition(|line| line.starts_with("use "));
            clients += &format!(
                "pub mod {name} {{\nuse super::{{FILE_DESCRIPTOR_SET, proto::order_service_client::OrderServiceClient}};\n{}\n\
                 pub type Client = OrderServiceClient<tonic_idempotency_client::IdempotencyClient<tonic::transport::Channel>>;\n\
                 #[allow(unused_mut, unused_variables)]\n\
                 pub fn {name}(channel: tonic::transport::Channel, journal: &std::path::Path) -> \
                 Result<Client, Box<dyn std::error::Error>> {{\n{}\nOk(orders)\n}}\n}}\n",
                uses.join("\n"),
                lines.join("\n")
            );
        }
        Ok(clients)
    }
}

fn replaced(code: &str, text: &str, by: &str) -> Result<String, Box<dyn Error>> {
    if !code.contains(text) {
        return Err(format!("the README's snippet has no {text}").into());
    }
    Ok(code.replacen(text, by, 1))
}
