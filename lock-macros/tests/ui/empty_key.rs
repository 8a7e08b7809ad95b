use polylock::locked;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[locked(key = "")]
async fn job(locks: &dyn polylock::DistributedLock) -> Result<(), BoxError> {
    Ok(())
}

fn main() {}
