use polylock::locked;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[locked(key = "job")]
async fn job(locks: &dyn polylock::DistributedLock) {}

fn main() {}
