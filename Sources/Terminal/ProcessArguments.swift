import Glibc

/// This process's command line.
enum ProcessArguments {
    /// The words after the executable's name.
    static var words: [String] { Array(CommandLine.arguments.dropFirst()) }

    /// The number of the first word that is not UTF-8 text, from 1; nil if all are. ``words`` cannot show it, because
    /// invalid bytes are replaced there.
    static var firstBroken: Int? {
        for index in 1..<max(1, Int(CommandLine.argc)) {
            guard let word = unsafe CommandLine.unsafeArgv[index] else { continue }
            let bytes = unsafe UnsafeBufferPointer(start: word, count: strlen(word)).map(UInt8.init(bitPattern:))
            if String(validating: bytes, as: UTF8.self) == nil { return index }
        }
        return nil
    }

    /// The name of the executable, without its folder.
    static var program: String { CommandLine.arguments.first?.split(separator: "/").last.map(String.init) ?? "pushq" }

    /// Overwrites passwords, and device tokens except for their beginning, in the memory from which `ps` and `/proc`
    /// read a command line, so that the machine's other users do not see them. First makes the standard library copy
    /// the arguments, which it does on first access. Until then, for a few milliseconds, other users can see them.
    static func hideSecrets() {
        _ = CommandLine.arguments
        for index in 1..<max(1, Int(CommandLine.argc)) {
            guard let word = unsafe CommandLine.unsafeArgv[index] else { continue }
            let bytes = unsafe UnsafeMutableBufferPointer(start: word, count: strlen(word))
            let text = unsafe bytes.map(UInt8.init(bitPattern:))
            let isToken = TokenDigits.isToken(at: index, of: CommandLine.arguments)
            let digits = TokenDigits.positions(in: text, isToken: isToken)
            for position in ConnectionPassword.positions(in: text) + digits {
                unsafe bytes[position] = CChar(UInt8(ascii: "*"))
            }
        }
    }
}
