/// The `:path` of a push: `/3/device/` and a device token in hexadecimal.
struct TokenPath {
    /// What is wrong with the path, if anything.
    var refusal: DocumentedReason?
    /// The token's first four bytes, the only part that is ever recorded.
    var start: UInt32 = 0
    /// The number of the token's digits.
    var digitCount = 0
    /// Distinguishes tokens without keeping them. It is the same in every run, so a share of tokens is always the same.
    var hash: UInt64 = 0
    /// The prefixes with which the token's digits begin, by bit.
    private(set) var matchedPrefixes: UInt64 = 0

    private static let base = Array("/3/device/".utf8)
    /// Today's tokens have 32 bytes. Apple has announced up to 100, and says that the length is not fixed.
    private static let digitCounts = 64...200

    /// - Parameter prefixes: the prefixes of tokens to look for, in lower case; 64 at most.
    init(_ path: Span<UInt8>, prefixes: [[UInt8]]) {
        guard path.count >= Self.base.count, path.extracting(first: Self.base.count).isEqual(toArray: Self.base) else {
            refusal = .badPath
            return
        }
        let token = path.extracting(droppingFirst: Self.base.count)
        digitCount = token.count
        guard digitCount > 0 else {
            refusal = .missingDeviceToken
            return
        }
        hash = Self.hash(of: token)
        guard let start = Self.start(of: token), Self.digitCounts.contains(digitCount), digitCount % 2 == 0 else {
            refusal = .badDeviceToken
            return
        }
        self.start = start
        for (index, prefix) in prefixes.enumerated() where token.hasLowerCasePrefix(prefix) {
            matchedPrefixes |= 1 << UInt64(index)
        }
    }

    /// A token of the binary interface, which has no path.
    init(deviceToken token: [UInt8], prefixes: [[UInt8]]) {
        let digits = token.flatMap { [HexDigits.digit(of: $0 >> 4), HexDigits.digit(of: $0 & 0xf)] }
        self.init((Self.base + digits).span, prefixes: prefixes)
    }

    /// The stand-in for the channel of a broadcast. It is case-sensitive.
    init(channel: Span<UInt8>) {
        hash = Self.hash(of: channel, caseBit: 0)
    }

    /// FNV-1a over the digits in lower case, mixed once more to improve its upper bits.
    private static func hash(of token: Span<UInt8>, caseBit: UInt8 = 0x20) -> UInt64 {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for index in token.indices { hash = (hash ^ UInt64(token[index] | caseBit)) &* 0x100_0000_01b3 }
        hash = (hash ^ hash >> 32) &* 0x9e37_79b9_7f4a_7c15
        return hash ^ hash >> 29
    }

    /// Returns the value of the first eight digits; nil if any character of the token is not a digit.
    private static func start(of token: Span<UInt8>) -> UInt32? {
        var start: UInt32 = 0
        for index in token.indices {
            guard let digit = HexDigits.value(of: token[index]) else { return nil }
            if index < 8 { start = start << 4 | UInt32(digit) }
        }
        return start
    }
}
