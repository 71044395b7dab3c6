import Foundation

/// A part of pushq that reads what others wrote, as libFuzzer tries it: `scripts/fuzz` runs each with inputs that it
/// keeps changing, by which lines of code they reach.
protocol FuzzTarget: Sendable {
    /// As `scripts/fuzz` and the folders of the corpus call it.
    static var name: String { get }

    /// Reads `input`, and stops the program if what came of it must not be. Whatever the input, this returns soon.
    static func read(_ input: [UInt8])
}

/// The program that `scripts/fuzz` builds. The environment names the target, since libFuzzer starts the program again
/// with arguments of its own.
@main
enum Main {
    static let targets: [any FuzzTarget.Type] = [
        HTTP2ClientTarget.self, HTTP2ServerTarget.self, HTTP2FramesTarget.self, HPACKTarget.self,
        HPACKFieldsTarget.self,
        CertificateTarget.self, MessageTarget.self,
        AnswerTarget.self, RequestTarget.self, WebhookAnswerTarget.self, WebAddressTarget.self, BinaryErrorTarget.self,
        BinaryFeedbackTarget.self,
    ]
    static let chosen = ProcessInfo.processInfo.environment["PUSHQ_FUZZ_TARGET"].flatMap { name in
        targets.first { $0.name == name }
    }

    static func main() {
        guard chosen != nil else {
            for target in targets { print(target.name) }
            return
        }
        var count = CommandLine.argc
        var arguments = unsafe CommandLine.unsafeArgv
        let code = unsafe runDriver(&count, &arguments) { bytes, count in
            Main.chosen?.read(unsafe Array(UnsafeBufferPointer(start: bytes, count: count)))
            return 0
        }
        exit(code)
    }
}

/// libFuzzer as a library: llvm.org/docs/LibFuzzer.html, "Using libFuzzer as a library". No header declares it.
@_silgen_name("LLVMFuzzerRunDriver")
private func runDriver(
    _ count: UnsafeMutablePointer<Int32>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ read: @convention(c) (UnsafePointer<UInt8>?, Int) -> Int32
) -> Int32

/// Takes an input apart from its front: what there is no byte for is 0.
struct InputReader {
    private var rest: ArraySlice<UInt8>

    init(_ input: [UInt8]) { rest = input[...] }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }

    /// The next bytes, fewer at the end.
    mutating func bytes(_ count: Int) -> [UInt8] {
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }

    /// All that is left.
    mutating func remainder() -> [UInt8] { bytes(rest.count) }
}
