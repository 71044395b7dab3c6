import Glibc
import Synchronization
import Testing

@testable import Transport

/// An actor like the engine's: it runs on a loop, and the loop's callbacks reach it without a hop.
private actor Counter {
    let loop: EventLoop
    private(set) var count = 0

    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    init(loop: EventLoop) {
        self.loop = loop
    }

    func increment() -> Bool {
        count += 1
        return loop.isCurrent
    }

    /// The loop is told to end while the jobs of these tasks are queued, and none of them has begun.
    func shutDownBehind(taskCount: Int) -> [Task<Bool, Never>] {
        let tasks = (0..<taskCount).map { _ in Task { increment() } }
        loop.shutDown()
        loop.shutDown()
        return tasks
    }

    func incrementByTimer(after delay: Duration) async -> Int {
        await withCheckedContinuation { continuation in
            loop.schedule(after: delay) {
                self.assumeIsolated { counter in
                    counter.count += 1
                    continuation.resume(returning: counter.count)
                }
            }
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `An event loop` {
    private let loop = EventLoop(name: "test")

    @Test func `runs its actor on its thread`() async {
        defer { loop.shutDown() }
        #expect(!loop.isCurrent)
        #expect(await Counter(loop: loop).increment())
    }

    @Test func `lets a timer reach its actor without a hop`() async {
        defer { loop.shutDown() }
        #expect(await Counter(loop: loop).incrementByTimer(after: .milliseconds(1)) == 1)
    }

    @Test func `wakes from a sleep without a timer for a job of another thread`() async {
        defer { loop.shutDown() }
        let counter = Counter(loop: loop)
        for _ in 0..<1000 { #expect(await counter.increment()) }
        #expect(await counter.count == 1000)
    }

    @Test func `takes jobs of many threads at once`() async {
        defer { loop.shutDown() }
        let counter = Counter(loop: loop)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask { for _ in 0..<2000 { _ = await counter.increment() } }
            }
        }
        #expect(await counter.count == 16_000)
    }

    @Test func `fires timers in the order of their deadlines, equal ones as scheduled`() async {
        defer { loop.shutDown() }
        let order = await loop.run { actor in
            await withCheckedContinuation { continuation in
                let fired = Fired()
                for (name, delay) in [("c", 3), ("a", 1), ("d", 3), ("b", 2)] {
                    actor.loop.schedule(after: .milliseconds(delay)) { fired.names.append(name) }
                }
                actor.loop.schedule(after: .milliseconds(4)) { continuation.resume(returning: fired.names) }
            }
        }
        #expect(order == ["a", "b", "c", "d"])
    }

    @Test func `never runs a cancelled timer, however many there are`() async {
        defer { loop.shutDown() }
        let fired = await loop.run { actor in
            await withCheckedContinuation { continuation in
                let fired = Fired()
                let timers = (0..<1000).map { index in
                    actor.loop.schedule(after: .milliseconds(index % 7)) { fired.names.append("\(index)") }
                }
                for (index, timer) in timers.enumerated() where index % 100 != 0 { timer.cancel() }
                actor.loop.schedule(after: .milliseconds(8)) { continuation.resume(returning: Set(fired.names)) }
            }
        }
        #expect(fired == Set(stride(from: 0, to: 1000, by: 100).map(String.init)))
    }

    @Test func `does not fire early`() async {
        defer { loop.shutDown() }
        let start = ContinuousClock.now
        _ = await Counter(loop: loop).incrementByTimer(after: .milliseconds(20))
        #expect(ContinuousClock.now - start >= .milliseconds(20))
    }

    @Test func `ends a turn after its timers and jobs, once for each request`() async {
        defer { loop.shutDown() }
        let order = await loop.run { actor in
            let fired = Fired()
            await withCheckedContinuation { continuation in
                actor.loop.schedule(after: .milliseconds(1)) {
                    actor.loop.atEndOfTurn { fired.names.append("end") }
                    continuation.resume()
                }
                actor.loop.schedule(after: .milliseconds(1)) { fired.names.append("timer") }
            }
            fired.names.append("job")
            await withCheckedContinuation { continuation in
                actor.loop.schedule(after: .milliseconds(1)) { continuation.resume() }
            }
            return fired.names
        }
        #expect(order == ["timer", "job", "end"])
    }

    @Test func `runs what is queued before it shuts down, twice being as good as once`() async {
        let counter = Counter(loop: loop)
        for task in await counter.shutDownBehind(taskCount: 100) { #expect(await task.value) }
    }

    @Test func `has let go of what it watched when somebody has waited for its end`() async throws {
        final class Watched: Sendable {
            private let onEnd: @Sendable () -> Void
            init(onEnd: @escaping @Sendable () -> Void) { self.onEnd = onEnd }
            // Ending takes a moment, as closing a TLS connection does.
            deinit {
                usleep(50_000)
                onEnd()
            }
        }
        let hasEnded = Locked(false)
        let loop = EventLoop(name: "test")
        await withCheckedContinuation { continuation in
            loop.post {
                let watched = Watched { hasEnded.withLock { $0 = true } }
                loop.schedule(after: .seconds(3600)) { withExtendedLifetime(watched) {} }
                continuation.resume()
            }
        }
        loop.shutDownAndWait()
        #expect(hasEnded.withLock { $0 })
        loop.shutDownAndWait()
    }
}

private final class Fired {
    var names: [String] = []
}

/// Remembers what it was told, and resumes the first waiter.
private final class Watcher: ReadinessHandler {
    var seen: [Interest] = []
    var continuation: CheckedContinuation<Void, Never>?

    func ready(_ readiness: Interest) {
        seen.append(readiness)
        continuation?.resume()
        continuation = nil
    }

    func next() async {
        await withCheckedContinuation { continuation = $0 }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `Watching a descriptor` {
    @Test func `says readable when there are bytes, and also when the peer has gone`() async {
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let seen = await loop.run { actor in
            let pair = socketPair()
            let watcher = Watcher()
            actor.loop.watch(pair.0, for: .readable, handler: watcher)
            var byte: UInt8 = 7
            unsafe write(pair.1, &byte, 1)
            await watcher.next()
            unsafe read(pair.0, &byte, 1)
            close(pair.1)
            watcher.seen.removeAll()
            await watcher.next()
            actor.loop.unwatch(pair.0)
            close(pair.0)
            return watcher.seen[0].contains(.readable)
        }
        #expect(seen)
    }

    @Test func `says writable only while asked for it`() async {
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let count = await loop.run { actor in
            let pair = socketPair()
            let watcher = Watcher()
            actor.loop.watch(pair.0, for: [], handler: watcher)
            actor.loop.update(pair.0, interest: .writable)
            await watcher.next()
            actor.loop.update(pair.0, interest: .readable)
            let before = watcher.seen.count
            await withCheckedContinuation { continuation in
                actor.loop.schedule(after: .milliseconds(5)) { continuation.resume() }
            }
            actor.loop.unwatch(pair.0)
            close(pair.0)
            close(pair.1)
            return (before, watcher.seen.count)
        }
        #expect(count.0 == count.1)
    }

    @Test func `who asks for nothing is not told of a hang-up either, until they ask`() async {
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let counts = await loop.run { actor in
            let pair = socketPair()
            let watcher = Watcher()
            actor.loop.watch(pair.0, for: .readable, handler: watcher)
            actor.loop.update(pair.0, interest: [])
            close(pair.1)
            await withCheckedContinuation { continuation in
                actor.loop.schedule(after: .milliseconds(5)) { continuation.resume() }
            }
            let before = watcher.seen.count
            actor.loop.update(pair.0, interest: .readable)
            await watcher.next()
            actor.loop.unwatch(pair.0)
            close(pair.0)
            return (before, watcher.seen.count)
        }
        #expect(counts == (0, 1))
    }

    @Test func `what is ready when a signal ends the sleep is told before the timers run`() async {
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let order = await loop.run { actor in
            let pair = socketPair()
            let watcher = Watcher()
            actor.loop.watch(pair.0, for: .readable, handler: watcher)
            let seenByTimer = await withCheckedContinuation { continuation in
                actor.loop.schedule(after: .seconds(1)) { continuation.resume(returning: watcher.seen.count) }
                Interruption.strike(writesTo: pair.1, holdingUpFor: 1_100_000)
            }
            actor.loop.unwatch(pair.0)
            close(pair.0)
            close(pair.1)
            return seenByTimer
        }
        #expect(order == 1)
    }

    @Test func `an event meant for a closed descriptor does not reach the one that got its number`() async {
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let reached = await loop.run { actor in
            let (first, second) = (socketPair(), socketPair())
            let later = Watcher()
            // Both are ready in the same turn. The first one that is told replaces the other by a silent socket with
            // the same descriptor.
            let replacer = Replacer(loop: actor.loop, descriptors: [first.0, second.0], later: later)
            actor.loop.watch(first.0, for: .readable, handler: replacer.handler(0))
            actor.loop.watch(second.0, for: .readable, handler: replacer.handler(1))
            var byte: UInt8 = 7
            unsafe write(first.1, &byte, 1)
            unsafe write(second.1, &byte, 1)
            await withCheckedContinuation { continuation in
                actor.loop.schedule(after: .milliseconds(5)) { continuation.resume() }
            }
            replacer.closeAll()
            close(first.1)
            close(second.1)
            return (replacer.hasReplaced, later.seen.count)
        }
        #expect(reached == (true, 0))
    }
}

/// Interrupts the sleep of the calling thread, and makes something ready and a timer due before the thread continues.
/// SIGCONT has this effect on a process that was stopped for a while.
private enum Interruption {
    private static let descriptor = Atomic<CInt>(-1)
    private static let microseconds = Atomic<UInt32>(0)

    static func strike(writesTo descriptor: CInt, holdingUpFor microseconds: UInt32) {
        Self.descriptor.store(descriptor, ordering: .relaxed)
        Self.microseconds.store(microseconds, ordering: .relaxed)
        signal(SIGURG) { _ in
            usleep(Interruption.microseconds.load(ordering: .relaxed))
            var byte: UInt8 = 7
            _ = unsafe write(Interruption.descriptor.load(ordering: .relaxed), &byte, 1)
            signal(SIGURG, SIG_DFL)
        }
        // Dispatch's threads block signals, and so do threads that they start.
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe sigaddset(&signals, SIGURG)
        unsafe pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        let thread = pthread_self()
        SystemThread.start {
            // Long enough for the loop to sleep again, and far less than its timer takes.
            usleep(100_000)
            pthread_kill(thread, SIGURG)
        }
    }
}

private final class Replacer {
    private final class Handler: ReadinessHandler {
        let action: () -> Void
        init(action: @escaping () -> Void) { self.action = action }
        func ready(_ readiness: Interest) { action() }
    }

    private let loop: EventLoop
    private let descriptors: [CInt]
    private let later: Watcher
    private var silentPeer: CInt = -1
    private(set) var hasReplaced = false

    init(loop: EventLoop, descriptors: [CInt], later: Watcher) {
        self.loop = loop
        self.descriptors = descriptors
        self.later = later
    }

    func handler(_ index: Int) -> any ReadinessHandler {
        Handler { [unowned self] in replace(descriptors[1 - index], told: descriptors[index]) }
    }

    private func replace(_ descriptor: CInt, told: CInt) {
        loop.update(told, interest: [])
        guard !hasReplaced else { return }
        hasReplaced = true
        loop.unwatch(descriptor)
        let pair = socketPair()
        dup2(pair.0, descriptor)
        close(pair.0)
        silentPeer = pair.1
        loop.watch(descriptor, for: .readable, handler: later)
    }

    func closeAll() {
        for descriptor in descriptors {
            loop.unwatch(descriptor)
            close(descriptor)
        }
        close(silentPeer)
    }
}

private func socketPair() -> (CInt, CInt) {
    var pair: [CInt] = [0, 0]
    let result = unsafe socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue), 0, &pair)
    precondition(result == 0)
    return (pair[0], pair[1])
}
