use polylock::locked;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

struct Order {
    id: u64,
}

#[locked(key = "order:{order.number}")]
async fn job(locks: &dyn polylock::DistributedLock, order: Order) -> Result<(), BoxError> {
    Ok(())
}

fn main() {}
