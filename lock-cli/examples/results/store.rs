//! A store to measure, and the runs on it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use lock_testkit::servers::{MeasuredServer, Product};
use serde_json::Value;

use crate::Problem;

/// The answers of `polylock bench`, by the name of the run.
pub(crate) type Figures = BTreeMap<String, Value>;

/// The runs, each with its arguments.
pub(crate) const RUNS: [(&str, &str); 8] = [
    ("free, 1 task", "--shape free --tasks 1"),
    ("free, 64 tasks", "--shape free --tasks 64"),
    ("hot", "--shape hot --tasks 64"),
    ("hot, not handed on", "--shape hot --tasks 64 --hand-off 0s"),
    (
        "hot, with a rival",
        "--shape procs --processes 2 --tasks 64",
    ),
    ("procs", "--shape procs --processes 4 --tasks 16"),
    ("handover", "--shape handover"),
    ("held", "--shape held --tasks 10000"),
];

pub(crate) struct BenchedStore {
    pub(crate) name: &'static str,
    /// The server to start; `None` for memory.
    product: Option<Product>,
    settings: &'static str,
    /// True if a client can hold many locks without a connection for each.
    holds_many: bool,
}

impl BenchedStore {
    pub(crate) const ALL: &[Self] = &[
        Self::new("memory", None, "", true),
        Self::new("redis", Some(Product::Redis), "", true),
        Self::new("mysql-lease", Some(Product::Sql), "", true),
        Self::new("mysql-row", Some(Product::Sql), "?hold=row", false),
        Self::new("etcd", Some(Product::Etcd), "", true),
        Self::new("zookeeper", Some(Product::ZooKeeper), "", true),
    ];

    const fn new(
        name: &'static str,
        product: Option<Product>,
        settings: &'static str,
        holds_many: bool,
    ) -> Self {
        Self {
            name,
            product,
            settings,
            holds_many,
        }
    }

    pub(crate) fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|store| store.name).collect()
    }

    /// Returns the name of the file with the store's figures.
    pub(crate) fn file(&self) -> String {
        format!("{}.json", self.name)
    }

    /// Returns the packages to install if the store's server is missing.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        self.product?.missing()
    }

    /// Performs all runs in sequence, on a server that ends with the last run.
    pub(crate) fn bench(&self, polylock: &Path) -> Result<Figures, Problem> {
        let server = self.product.map(MeasuredServer::start);
        let url = match &server {
            Some(server) => format!("{}{}", server.url(), self.settings),
            None => "memory://".to_owned(),
        };
        let mut figures = Figures::new();
        for (name, arguments) in RUNS {
            if name == "held" && !self.holds_many {
                continue;
            }
            let answer = Command::new(polylock)
                .args(["bench", "--json", "--lock", &url])
                .args(arguments.split(' '))
                .stderr(Stdio::inherit())
                .output()?;
            if !answer.status.success() {
                return Err(format!("{}, {name}: {}", self.name, answer.status).into());
            }
            let answer: Value = serde_json::from_slice(&answer.stdout)?;
            println!("{}, {name}: {answer}", self.name);
            figures.insert(name.to_owned(), answer);
        }
        Ok(figures)
    }
}
