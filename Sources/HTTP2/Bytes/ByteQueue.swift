/// A queue of bytes, written at the back and taken from the front: the output of a connection, the beginning of a frame
/// that has not arrived completely, the text of a dynamic table.
///
/// The bytes are contiguous, so that whole frames can be read and written in place. To make room, the queue moves the
/// remaining bytes to the start or doubles its memory. Every byte has a *position*: how many were appended before it
/// since the queue was made. Positions do not change while bytes are taken, so a caller can tell whether a certain
/// frame has gone out.
///
/// This file and `Array+Span.swift` are the only ones of this target that touch memory by pointer.
@safe package struct ByteQueue: ~Copyable {
    private var base: UnsafeMutablePointer<UInt8>
    private var capacity: Int
    private var head = 0
    private var tail = 0

    /// The position of the first byte that has not been taken.
    package private(set) var consumedPosition: UInt64 = 0

    /// An emptied queue with more memory than this frees it: after a burst, thousands of idle connections must not keep
    /// theirs.
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

    /// Appends two lower-case hexadecimal digits for each byte.
    package mutating func append(hexadecimal bytes: Span<UInt8>) {
        reserve(bytes.count &* 2)
        var offset = 0
        while offset &+ 4 <= bytes.count {
            let word: UInt32 = bytes.bigEndian(at: offset)
            write(bigEndian: UInt64(digitsOf: word))
            offset &+= 4
        }
        while offset < bytes.count {
            write(bigEndian: UInt16(truncatingIfNeeded: UInt64(digitsOf: UInt32(bytes[offset]))))
            offset &+= 1
        }
    }

    /// Appends the 36 characters of a UUID, given as its two halves (RFC 9562 §4).
    package mutating func append(uuid: (high: UInt64, low: UInt64)) {
        reserve(Self.uuidByteCount)
        write(bigEndian: UInt64(digitsOf: UInt32(truncatingIfNeeded: uuid.high &>> 32)))
        let middle = UInt64(digitsOf: UInt32(truncatingIfNeeded: uuid.high))
        let (next, last) = (uuid.low &>> 32, UInt32(truncatingIfNeeded: uuid.low))
        let second = UInt64(digitsOf: UInt32(truncatingIfNeeded: next))
        write(group: UInt32(truncatingIfNeeded: middle &>> 32))
        write(group: UInt32(truncatingIfNeeded: middle))
        write(group: UInt32(truncatingIfNeeded: second &>> 32))
        write(group: UInt32(truncatingIfNeeded: second))
        write(bigEndian: UInt64(digitsOf: last))
    }

    package static let uuidByteCount = 36

    /// Writes a hyphen and four digits.
    private mutating func write(group digits: UInt32) {
        write(bigEndian: UInt8(ascii: "-"))
        write(bigEndian: digits)
    }

    /// Writes into room that was reserved.
    private mutating func write<Value: FixedWidthInteger>(bigEndian value: Value) {
        unsafe UnsafeMutableRawPointer(base + tail).storeBytes(of: value.bigEndian, as: Value.self)
        tail &+= Value.bitWidth / 8
    }

    /// Appends what `fill` writes into room for `count` bytes. If `fill` throws, nothing is appended.
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

    /// Removes the bytes from `position` to the end.
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

extension UInt64 {
    /// The eight lower-case hexadecimal digits of a number in ASCII, the first in the highest byte. It computes all at
    /// once, because a worker writes a hundred digits for each push.
    fileprivate init(digitsOf value: UInt32) {
        // One byte for each digit.
        var digits = UInt64(value)
        digits = (digits | digits &<< 16) & 0x0000_FFFF_0000_FFFF
        digits = (digits | digits &<< 8) & 0x00FF_00FF_00FF_00FF
        digits = (digits | digits &<< 4) & 0x0F0F_0F0F_0F0F_0F0F
        // 1 in each byte whose digit is above nine; its letter is 39 further behind "0".
        let letters = (digits &+ 0x0606_0606_0606_0606) &>> 4 & 0x0101_0101_0101_0101
        self = digits &+ 0x3030_3030_3030_3030 &+ letters &* 39
    }
}
