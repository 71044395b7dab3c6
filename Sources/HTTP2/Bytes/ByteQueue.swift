/// Bytes written at the back and taken from the front: what a connection has yet to send, the part of a frame that has
/// arrived so far, the text of a dynamic table.
///
/// The bytes are contiguous, so that whole frames can be read and written in place. Room is found by moving what is
/// left to the start, or by doubling. Every byte has a *position*: how many were appended before it since the queue was
/// made. A position stays true while bytes are taken, which is how a caller learns that a certain frame has gone out.
///
/// This file and `Array+Span.swift` are the only ones of this target that touch memory by pointer.
@safe package struct ByteQueue: ~Copyable {
    private var base: UnsafeMutablePointer<UInt8>
    private var capacity: Int
    private var head = 0
    private var tail = 0

    /// The position of the first byte that has not been taken.
    package private(set) var consumedPosition: UInt64 = 0

    /// Beyond this an emptied queue gives its memory back: one burst must not be paid for by thousands of idle
    /// connections.
    private static let retainedCapacity = 256 * 1024

    package init(minimumCapacity: Int = 0) {
        capacity = minimumCapacity
        unsafe base = .allocate(capacity: minimumCapacity)
    }

    deinit { unsafe base.deallocate() }

    package var count: Int { tail - head }
    package var isEmpty: Bool { tail == head }

    /// The position behind the last byte appended.
    package var endPosition: UInt64 { consumedPosition &+ UInt64(truncatingIfNeeded: tail &- head) }

    // MARK: Appending

    package mutating func append(_ byte: UInt8) {
        reserve(1)
        unsafe base[tail] = byte
        tail &+= 1
    }

    package mutating func append(_ bytes: Span<UInt8>) {
        guard !bytes.isEmpty else { return }
        reserve(bytes.count)
        unsafe bytes.withUnsafeBufferPointer { source in
            unsafe (base + tail).update(from: source.baseAddress.unsafelyUnwrapped, count: source.count)
        }
        tail &+= bytes.count
    }

    package mutating func append(_ bytes: [UInt8]) { append(bytes.span) }

    /// Appends an integer in network byte order.
    package mutating func append<Value: FixedWidthInteger>(bigEndian value: Value) {
        let count = Value.bitWidth / 8
        reserve(count)
        unsafe UnsafeMutableRawPointer(base + tail).storeBytes(of: value.bigEndian, as: Value.self)
        tail &+= count
    }

    /// Appends what `fill` writes into room for `count` bytes; on an error, what it wrote so far is dropped.
    package mutating func append<Failure: Error>(
        upTo count: Int, _ fill: (inout OutputSpan<UInt8>) throws(Failure) -> Void
    ) throws(Failure) {
        reserve(count)
        let room = unsafe UnsafeMutableBufferPointer(start: base + tail, count: count)
        var output = unsafe OutputSpan(buffer: room, initializedCount: 0)
        try fill(&output)
        tail &+= unsafe output.finalize(for: room)
    }

    /// Writes over bytes that are still in the queue, from `position` on.
    package mutating func overwrite<Value: FixedWidthInteger>(at position: UInt64, bigEndian value: Value) {
        let offset = offset(of: position)
        precondition(offset &+ Value.bitWidth / 8 <= tail, "Only bytes in the queue can be written over.")
        unsafe UnsafeMutableRawPointer(base + offset).storeBytes(of: value.bigEndian, as: Value.self)
    }

    /// Takes back what was appended from `position` on.
    package mutating func truncate(to position: UInt64) {
        tail = offset(of: position)
    }

    // MARK: Reading

    /// Calls `body` with everything in the queue. `body` must not touch the queue.
    package func withBytes<Result: ~Copyable, Failure: Error>(
        _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(unsafe Span(_unsafeStart: base + head, count: tail &- head))
    }

    /// Calls `body` with `count` bytes from `position` on.
    package func withBytes<Result: ~Copyable, Failure: Error>(
        at position: UInt64, count: Int, _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let offset = offset(of: position)
        precondition(count >= 0 && count <= tail &- offset, "Only bytes in the queue can be read.")
        return try body(unsafe Span(_unsafeStart: base + offset, count: count))
    }

    /// Takes `count` bytes from the front.
    package mutating func consume(_ count: Int) {
        precondition(count >= 0 && count <= self.count, "More was taken than the queue holds.")
        head &+= count
        consumedPosition &+= UInt64(count)
        if head == tail {
            head = 0
            tail = 0
            if capacity > Self.retainedCapacity { reallocate(0) }
        }
    }

    /// Takes everything.
    package mutating func removeAll() { consume(count) }

    // MARK: Room

    private func offset(of position: UInt64) -> Int {
        let distance = position &- consumedPosition
        precondition(distance <= UInt64(tail &- head), "The position is not in the queue.")
        return head &+ Int(truncatingIfNeeded: distance)
    }

    /// Makes room for `count` more bytes at the back.
    package mutating func reserve(_ count: Int) {
        if capacity &- tail < count { makeRoom(count) }
    }

    @inline(never)
    private mutating func makeRoom(_ count: Int) {
        let held = tail - head
        // Moving pays only while at least half of the memory is free; otherwise each byte could be moved many times.
        if (held + count) * 2 <= capacity {
            unsafe base.update(from: base + head, count: held)
            head = 0
            tail = held
        } else {
            reallocate(max(256, capacity * 2, (held + count) * 2))
        }
    }

    private mutating func reallocate(_ newCapacity: Int) {
        let held = tail - head
        let moved = UnsafeMutablePointer<UInt8>.allocate(capacity: newCapacity)
        unsafe moved.update(from: base + head, count: held)
        unsafe base.deallocate()
        unsafe base = moved
        capacity = newCapacity
        head = 0
        tail = held
    }
}
