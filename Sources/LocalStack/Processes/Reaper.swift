import FoundationEssentials
import Glibc
import Transport

/// Ends processes and removes folders when the program that made them ends, however it ends.
///
/// A shell script reads from one socket of a pair what to reap. When this program ends, by an exit, by Ctrl-C, by
/// SIGKILL or by a crash, the kernel closes the other one. The script then ends the processes, the youngest first, and
/// removes the folders. A clean ``end()`` works in the same way, so there is only one way. What is registered after
/// that is ended and removed at once.
package final class Reaper: Sendable {
    private let script: ChildProcess
    /// The socket to the script; nil after ``end()``.
    private let orders: Locked<OpenFile?>

    /// - Parameter patience: how long a process may take to end before it is killed.
    package init(patience: Duration = .seconds(10)) throws(LocalStackError) {
        let steps = String(Int(patience / Self.step))
        let pair = try SocketPair()
        orders = Locked(pair.writing)
        var command = ProcessCommand(
            "/bin/sh", ["-c", Self.scriptText, "pushq-reaper", steps], environment: ["PATH": Self.path])
        command.input = pair.reading.descriptor
        // The script does not use the program's own output, so that a reader of that does not wait for the reaper.
        command.output = .discarded
        command.errors = .discarded
        script = try ChildProcess(command)
        pair.reading.close()
    }

    /// Ends the process with `signal` when this program is gone, and with SIGKILL if that takes too long.
    package func register(processID: Int32, endingWith signal: Int32 = SIGKILL) {
        // The ID alone could belong to another process by then. ID and start time together cannot.
        guard let start = ProcessTimes(of: processID)?.startTime else { return }
        if !order("child \(processID) \(start) \(signal)") { kill(processID, SIGKILL) }
    }

    /// Removes the folder with its contents when this program is gone.
    package func register(folder: String) {
        guard folder.hasPrefix("/"), folder != "/", !folder.contains("\n") else {
            fatalError("no folder to remove: \(folder)")
        }
        if !order("folder \(folder)") { try? FileManager.default.removeItem(atPath: folder) }
    }

    /// Starts a process that does not outlive this program.
    package func start(_ command: ProcessCommand, endingWith signal: Int32 = SIGKILL) throws(LocalStackError)
        -> ChildProcess
    {
        let child = try ChildProcess(command)
        register(processID: child.processID, endingWith: signal)
        return child
    }

    /// Ends and removes everything that is registered now, and returns when that is gone.
    package func end() async {
        orders.withLock { orders in
            orders?.close()
            orders = nil
        }
        _ = await script.waitForExit()
    }

    /// Gives the script an order. Returns false after ``end()``.
    @discardableResult
    func order(_ line: String) -> Bool {
        orders.withLock { orders in
            // This fails only if the reaper was killed. The write then raises SIGPIPE, which its program ignores, like
            // every program that writes to sockets.
            try? orders?.write(Array((line + "\n").utf8))
            return orders != nil
        }
    }

    private static let step = Duration.milliseconds(20)
    private static let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

    /// The script. Field 22 of /proc/PID/stat is the start time; the fields are counted from behind the name, which may
    /// contain anything. A zombie counts as gone, because a container may have no process that waits for it.
    private static let scriptText = #"""
        trap '' HUP INT QUIT TERM PIPE
        children= folders= newline='
        '
        while read -r verb rest; do
            case $verb in
            child) children=$rest$newline$children ;;
            folder) folders=$rest$newline$folders ;;
            esac
        done

        runs() { # process, start time
            { IFS= read -r status < "/proc/$1/stat"; } 2>/dev/null || return 1
            started=$2
            set -- ${status##*) }
            [ "$1" != Z ] && [ "${20}" = "$started" ]
        }
        still_running() {
            printf %s "$children" | while read -r process start signal; do
                if runs "$process" "$start"; then echo "$process $start $signal"; fi
            done
        }
        # A child leads a group of its own, with what it has started in turn; the server that `su` has started leads none.
        end() { # signal, process
            kill -s "$1" -- "-$2" || kill -s "$1" "$2"
        }
        still_running | while read -r process start signal; do
            end "$signal" "$process"
            end CONT "$process"
        done
        patience=$1 # in steps of 20 ms
        while [ -n "$(still_running)" ] && [ $patience -gt 0 ]; do
            sleep 0.02
            patience=$((patience - 1))
        done
        still_running | while read -r process rest; do end KILL "$process"; done
        # What is only just ending may still write into it.
        printf %s "$folders" | while IFS= read -r folder; do
            for try in 1 2 3 4 5; do rm -rf -- "$folder" && break || sleep 0.5; done
        done
        """#
}
