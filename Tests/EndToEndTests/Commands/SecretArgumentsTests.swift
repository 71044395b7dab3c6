import Foundation
import LocalStack
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `Secrets on a command line` {
    private static let token = String(repeating: "0f1e2d3c", count: 8)

    private static let address = "postgres://pushq:sesame@db/push"

    /// A token, and how `ps` shows it.
    private static let tokens = [
        (token, "0f1e2d3c" + String(repeating: "*", count: 56)),
        (
            "<\(Array(repeating: "0f1e2d3c", count: 8).joined(separator: " "))>",
            "<0f1e2d3c" + String(repeating: " ********", count: 7) + ">"
        ),
        ("0f1e2d3c4b5a", "0f1e2d3c****"),
    ]

    @Test(arguments: tokens)
    func `are not shown to other users by ps: neither a password nor a whole token`(
        token: String, shown: String
    ) async throws {
        try await Shop.open { shop in
            let url = try #require(shop.environment["PUSHQ_DATABASE_URL"])
            let process = try Executable.pushq.start(
                [
                    "send", Shop.queue, "--token", token, "--alert", "hi", "--wait", "--timeout", "120s",
                    "--database-url", url + (url.contains("://") ? "&" : " ") + "password=sesame",
                ],
                environment: [:], output: shop.folder.path("out"), errors: shop.folder.path("err"))
            try await eventually("it waits", within: .seconds(60)) {
                shop.folder.read("err").contains("waiting for the end")
            }
            let arguments = try String(contentsOfFile: "/proc/\(process.processID)/cmdline", encoding: .utf8)
            #expect(arguments.contains(Shop.queue))
            #expect(arguments.contains("password=******"))
            #expect(!arguments.contains("sesame"))
            #expect(arguments.contains("\0\(shown)\0"))
            process.signal(SIGKILL)
            _ = await process.waitForExit()
        }
    }

    /// `--databases`, which takes a file, is easily mistaken for `--database-url`, and `--tokens` for `--token`.
    @Test(arguments: [
        (["pushq", "work", "--databases"], address), (["pushq-admin", "router", "--databases"], address),
        (["pushq", "work", "--queues"], address), (["pushq-admin", "migrate"], address), (["pushq", "send"], address),
        (["pushq-admin"], address), (["pushq", "send", Shop.queue, "--alert", "hi", "--tokens"], token),
        (["pushq", "lint"], token),
    ])
    func `are repeated by no error, wherever they were typed by mistake`(
        words: [String], secret: String
    ) async throws {
        let executable = words[0] == "pushq" ? Executable.pushq : .admin
        let ended = try await executable.run(
            Array(words.dropFirst()) + [secret],
            environment: ["PUSHQ_DATABASE_URL": "postgres://127.0.0.1:1/none"])
        #expect(ended.code != 0)
        let shown = secret == Self.token ? "0f1e2d3c********" : "postgres://pushq:******@db/push"
        #expect(ended.errors.contains(shown), "\(ended.errors)")
        #expect(!ended.errors.contains("sesame"), "\(ended.errors)")
        #expect(!ended.errors.contains(Self.token), "\(ended.errors)")
    }

    @Test func `need not be there: tokens are read from a file or from standard input`() async throws {
        try await Shop.open { shop in
            let file = try shop.folder.write("\(Self.token)\n\n00ff\r\n", to: "tokens.txt")
            for (words, input) in [([file], nil), (["-"], "00fe\n\(Self.token)")] {
                let ended = try await Executable.pushq.run(
                    ["send", Shop.queue, "--alert", "hi", "--tokens"] + words, environment: shop.environment,
                    input: input)
                #expect(ended.code == 0)
                #expect(ended.output.contains(/recipients +2\n/))
            }
            let wrong = try shop.folder.write("00ff\nhello\n", to: "wrong.txt")
            let ended = try await shop.pushq("send", Shop.queue, "--alert", "hi", "--tokens", wrong)
            expectFailure(ended, code: 1, saying: "wrong.txt:2: ")
            #expect(!ended.errors.contains("hello"))
            let both = try await shop.pushq("send", Shop.queue, "--payload", "-", "--tokens", "-")
            #expect(both.code == 2)
        }
    }
}
