use polylock::locked;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[locked(key = "job")]
async fn job(id: u64) -> Result<(), BoxError> {
    Ok(())
}

fn main() {}
