import Dispatch
import Testing
import Transport

@testable import Terminal

@Suite(.timeLimit(.minutes(5))) struct `A log whose reader stalls` {
    /// What was written, by a reader that reads nothing before it is released.
    private final class Reader: Sendable {
        let lines = Locked<[String]>([])
        private let released = DispatchSemaphore(value: 0)

        func take(_ line: String) {
            released.wait()
            released.signal()
            lines.withLock { $0.append(line) }
        }

        func release() { released.signal() }
    }

    @Test func `keeps nobody waiting, and says how many lines there was no room for`() {
        let reader = Reader()
        let writer = LogWriter {
            reader.take($0)
        } lossLine: {
            "\($0) lost"
        }
        let line = String(repeating: "x", count: 1024)
        for _ in 0..<1034 { writer.add(line) }
        writer.flush(within: .milliseconds(10))
        #expect(reader.lines.withLock { $0.isEmpty })
        reader.release()
        writer.flush(within: .seconds(60))
        let lines = reader.lines.withLock { $0 }
        #expect(lines.count { $0 == line } == 1024)
        #expect(lines.filter { $0 != line } == ["10 lost"])
        writer.add("y")
        writer.flush(within: .seconds(60))
        #expect(reader.lines.withLock { $0.last } == "y")
    }
}
