import java.util.Scanner;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

/** A program that executes commands from standard input on an InterProcessMutex, and prints results. */
public class Mutex {
    public static void main(String[] arguments) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(arguments[0], new RetryOneTime(100));
        client.start();
        client.blockUntilConnected();
        InterProcessMutex mutex = new InterProcessMutex(client, arguments[1]);
        System.out.println("ready");
        Scanner commands = new Scanner(System.in);
        while (commands.hasNextLine()) {
            String command = commands.nextLine();
            if (command.equals("try")) {
                System.out.println(mutex.acquire(100, TimeUnit.MILLISECONDS));
            } else if (command.equals("lock")) {
                System.out.println(mutex.acquire(30, TimeUnit.SECONDS));
            } else {
                mutex.release();
                System.out.println("released");
            }
        }
    }
}
