import Foundation

/// This process's command line.
enum ProcessArguments {
    /// The words after the executable's name.
    static var words: [String] { Array(CommandLine.arguments.dropFirst()) }

    /// Overwrites passwords in the memory from which `ps` and `/proc` read a command line, so that the machine's other
    /// users do not see them. The standard library copies the arguments when they are first asked for, so that is done
    /// before.
    static func hidePasswords() {
        _ = CommandLine.arguments
        for index in 1..<max(1, Int(CommandLine.argc)) {
            guard let word = unsafe CommandLine.unsafeArgv[index] else { continue }
            let bytes = unsafe UnsafeMutableBufferPointer(start: word, count: strlen(word))
            for position in ConnectionPassword.positions(in: unsafe bytes.map(UInt8.init(bitPattern:))) {
                unsafe bytes[position] = CChar(UInt8(ascii: "*"))
            }
        }
    }
}

/// Finds passwords in what libpq takes as a connection string: `postgres://user:PASSWORD@host/database`,
/// `…?password=PASSWORD` and `host=… password=PASSWORD` (PostgreSQL manual, 34.1.1).
package enum ConnectionPassword {
    /// The positions of the bytes of passwords in `word`.
    package static func positions(in word: [UInt8]) -> [Int] {
        Array(inAuthority(of: word)) + Array(inParameter(of: word))
    }

    private static func inAuthority(of word: [UInt8]) -> Range<Int> {
        guard let scheme = word.firstRange(of: Array("://".utf8)) else { return 0..<0 }
        let authority = word[scheme.upperBound...].prefix { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
        guard let at = authority.lastIndex(of: UInt8(ascii: "@")),
            let colon = authority[..<at].firstIndex(of: UInt8(ascii: ":"))
        else { return 0..<0 }
        return colon + 1..<at
    }

    private static func inParameter(of word: [UInt8]) -> Range<Int> {
        guard let key = word.firstRange(of: Array("password=".utf8)) else { return 0..<0 }
        let value = word[key.upperBound...].prefix { $0 != UInt8(ascii: "&") && $0 != UInt8(ascii: " ") }
        return value.startIndex..<value.endIndex
    }
}
