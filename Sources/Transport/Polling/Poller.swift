import CLinux
import Glibc

/// The kernel's side of a loop: the epoll instance, and the eventfd by which another thread wakes the loop.
///
/// `wake()` may be called from any thread. Everything else belongs to the loop's thread.
@safe final class Poller {
    private struct Watch {
        var handler: (any ReadinessHandler)?
        var interest: Interest = []
        /// Distinguishes the watch from earlier ones of the same descriptor number. An event that epoll reported before
        /// a descriptor was closed must not reach the descriptor that got its number in the same turn.
        var generation: UInt32 = 0
    }

    /// The maximum number of events taken per system call; the next call reports the rest.
    private static let eventCapacity = 512

    private let epoll: CInt
    private let wakeUp: CInt
    private var watches: [Watch] = []
    private let events = UnsafeMutablePointer<epoll_event>.allocate(capacity: eventCapacity)

    init() {
        epoll = SystemCall.orDie("epoll_create1") { epoll_create1(CInt(EPOLL_CLOEXEC)) }
        wakeUp = SystemCall.orDie("eventfd") { eventfd(0, CInt(EFD_CLOEXEC | EFD_NONBLOCK)) }
        control(EPOLL_CTL_ADD, wakeUp, events: EPOLLIN.rawValue, key: UInt64(UInt32(bitPattern: wakeUp)))
    }

    deinit {
        close(epoll)
        close(wakeUp)
        unsafe events.deallocate()
    }

    /// Ends the current or the next `wait`.
    func wake() {
        var one: UInt64 = 1
        // This can fail only if the counter is at its maximum, and then the loop wakes as well.
        _ = unsafe write(wakeUp, &one, 8)
    }

    func watch(_ descriptor: CInt, for interest: Interest, handler: any ReadinessHandler) {
        let index = Int(descriptor)
        while watches.count <= index { watches.append(Watch()) }
        precondition(watches[index].handler == nil, "the descriptor is watched already")
        watches[index].handler = handler
        watches[index].interest = interest
        watches[index].generation &+= 1
        if !interest.isEmpty { control(EPOLL_CTL_ADD, descriptor) }
    }

    /// Changes what a descriptor is watched for. A descriptor without interest is removed from epoll: otherwise the
    /// kernel would report hang-ups and errors unasked (epoll_ctl(2)), in every turn.
    func update(_ descriptor: CInt, interest: Interest) {
        let index = Int(descriptor)
        precondition(index < watches.count && watches[index].handler != nil, "the descriptor is not watched")
        let earlier = watches[index].interest
        guard earlier != interest else { return }
        watches[index].interest = interest
        control(earlier.isEmpty ? EPOLL_CTL_ADD : interest.isEmpty ? EPOLL_CTL_DEL : EPOLL_CTL_MOD, descriptor)
    }

    func unwatch(_ descriptor: CInt) {
        let index = Int(descriptor)
        guard index < watches.count, watches[index].handler != nil else { return }
        if !watches[index].interest.isEmpty { control(EPOLL_CTL_DEL, descriptor) }
        watches[index].handler = nil
    }

    func unwatchAll() {
        for index in watches.indices { unwatch(CInt(index)) }
    }

    /// Sleeps at most `milliseconds` (-1: until woken), then calls the handlers of ready descriptors.
    /// - Parameter afterWaking: runs before the first handler.
    func wait(milliseconds: CInt, afterWaking: () -> Void) {
        var count = unsafe epoll_wait(epoll, events, CInt(Self.eventCapacity), milliseconds)
        // A signal ends the sleep, and so does continuing a stopped process (signal(7)). Handlers of descriptors that
        // have become ready meanwhile must run before the timers: an answer that has arrived is not late.
        if count < 0 { count = unsafe epoll_wait(epoll, events, CInt(Self.eventCapacity), 0) }
        afterWaking()
        guard count > 0 else { return }
        for index in 0..<Int(count) { unsafe dispatch(events[index].data.u64, events[index].events) }
    }

    private func dispatch(_ key: UInt64, _ bits: UInt32) {
        let descriptor = CInt(truncatingIfNeeded: key)
        guard descriptor != wakeUp else { return drainWakeUp() }
        let watch = watches[Int(descriptor)]
        guard let handler = watch.handler, watch.generation == UInt32(truncatingIfNeeded: key >> 32) else { return }
        handler.ready(Self.readiness(bits))
    }

    private static func readiness(_ bits: UInt32) -> Interest {
        var readiness: Interest = []
        // Reading reveals an error or a hang-up. A handler that waits for a connection attempt watches for writing.
        if bits & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 { readiness = [.readable, .writable] }
        if bits & EPOLLIN.rawValue != 0 { readiness.insert(.readable) }
        if bits & EPOLLOUT.rawValue != 0 { readiness.insert(.writable) }
        return readiness
    }

    private func drainWakeUp() {
        var count: UInt64 = 0
        _ = unsafe read(wakeUp, &count, 8)
    }

    private func control(_ operation: CInt, _ descriptor: CInt) {
        let watch = watches[Int(descriptor)]
        var bits: UInt32 = 0
        if watch.interest.contains(.readable) { bits |= EPOLLIN.rawValue }
        if watch.interest.contains(.writable) { bits |= EPOLLOUT.rawValue }
        let key = UInt64(watch.generation) << 32 | UInt64(UInt32(bitPattern: descriptor))
        control(operation, descriptor, events: bits, key: key)
    }

    private func control(_ operation: CInt, _ descriptor: CInt, events bits: UInt32, key: UInt64) {
        var event = unsafe epoll_event(events: bits, data: epoll_data(u64: key))
        SystemCall.orDie("epoll_ctl") { unsafe epoll_ctl(epoll, operation, descriptor, &event) }
    }
}
