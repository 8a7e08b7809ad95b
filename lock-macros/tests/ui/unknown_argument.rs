use polylock::locked;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[locked(key = "order:{ordr.id}")]
async fn job(locks: &dyn polylock::DistributedLock, order: u64) -> Result<(), BoxError> {
    Ok(())
}

fn main() {}
