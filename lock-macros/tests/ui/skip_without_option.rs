use polylock::locked;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[locked(key = "job", on_busy = "skip")]
async fn job(locks: &dyn polylock::DistributedLock) -> Result<u32, BoxError> {
    Ok(1)
}

fn main() {}
