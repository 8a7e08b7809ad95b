//! The output and the logs, and the secrets that they must not contain.

use std::error::Error as StdError;
use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use polylock::Config;

/// A password with every sign that has a meaning in a URL, and a part without such signs.
pub(crate) const PASSWORD: &str = "hush/7Gq@x?y#z%41:w";
pub(crate) const ENCODED: &str = "hush%2F7Gq%40x%3Fy%23z%2541%3Aw";
pub(crate) const WRONG: &str = "hush7Gq-wrong";

/// The parts of the passwords that no output may contain.
const SECRETS: [&str; 4] = ["hush", "7Gq", "x?y", "x%3Fy"];

/// All logs of this process, and all values that its tests print.
#[derive(Clone, Default)]
pub(crate) struct Printed(Arc<Mutex<Vec<u8>>>);

impl Printed {
    /// Returns the value of this process, which collects its logs.
    pub(crate) fn with_all_that_is_logged() -> &'static Self {
        static PRINTED: OnceLock<Printed> = OnceLock::new();

        PRINTED.get_or_init(|| {
            let printed = Self::default();
            let writer = printed.clone();
            tracing_subscriber::fmt()
                .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
                .with_ansi(false)
                .with_writer(move || writer.clone())
                .init();
            printed
        })
    }

    pub(crate) fn show(&self, shown: &dyn Debug) {
        let text = format!("{shown:?}\n{shown:#?}\n");
        self.0
            .lock()
            .expect("nobody panics with it")
            .extend_from_slice(text.as_bytes());
    }

    pub(crate) fn show_error(&self, error: &polylock::Error) {
        self.show(error);
        let mut cause: Option<&dyn StdError> = Some(error);
        while let Some(error) = cause {
            self.show(&format!("{error}"));
            self.show(&error);
            cause = error.source();
        }
    }

    /// Tries an invalid URL.
    pub(crate) async fn show_refusal(&self, url: &str) {
        self.show(&Config::new(url));
        match polylock::connect(url).await {
            Ok(locks) => panic!("connected to {locks:?} by {url}"),
            Err(error) => self.show_error(&error),
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("nobody panics with it")).into_owned()
    }

    pub(crate) fn assert_no_secret(&self) {
        let text = self.text();
        for line in text.lines() {
            for secret in SECRETS {
                assert!(!line.contains(secret), "{secret} in {line}");
            }
        }
    }

    /// Asserts that the output has these parts: empty output would prove nothing.
    pub(crate) fn assert_has(&self, parts: &[&str]) {
        let text = self.text();
        for part in parts {
            assert!(text.contains(part), "nothing is logged: {part}");
        }
    }
}

impl io::Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .expect("nobody panics with it")
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
