import Foundation
import Testing

@Suite struct `The boundaries of the code` {
    private let repository = Repository()

    /// Folders with unsafe code, each behind a safe interface. The compiler checks all other code.
    private static let unsafeCode = [
        "Sources/Cryptography/", "Sources/Transport/", "Sources/PostgresStore/Connection/",
        "Sources/PostgresStore/BinaryFormat/", "Sources/HTTP2/Bytes/", "Sources/LocalStack/",
        "Sources/Terminal/ProcessArguments.swift",
    ]

    /// Types whose safety depends on a loop's thread or on C, with the proof beside them.
    private static let uncheckedSendable = [
        "Sources/Cryptography/", "Sources/Transport/", "Sources/PostgresStore/Connection/",
    ]

    /// How an actor names its loop. This is safe because the actor holds the loop.
    private static let loopOfAnActor = ".asUnownedSerialExecutor()"

    @Test func `unsafe code lives in a few folders`() throws {
        try expect("unsafe", onlyIn: Self.unsafeCode, apartFrom: Self.loopOfAnActor)
    }

    @Test(arguments: ["ARCHITECTURE.md", "docs/security.md"])
    func `the pages name the places of unsafe code`(document: String) throws {
        let page = try #require(repository.documents().first { $0.path == document })
        for place in Self.unsafeCode {
            let name = place.dropFirst("Sources/".count).split(separator: "/").joined(separator: "/")
            #expect(page.text.contains("`\(name)`"), "\(document) does not name \(name)")
        }
    }

    @Test func `unchecked sendability lives in a few folders`() throws {
        for file in try repository.files(in: "Sources", endings: [".swift"]) {
            for line in file.code where line.text.contains("@unchecked Sendable") {
                #expect(isIn(file, Self.uncheckedSendable), "\(file.path):\(line.number)")
            }
        }
    }

    @Test(arguments: [
        ("COpenSSL", "Sources/Cryptography/"), ("CPostgres", "Sources/PostgresStore/Connection/"),
        ("CLinux", "Sources/Transport/"),
    ])
    func `C is reached through its door alone`(module: String, door: String) throws {
        try expect(module, onlyIn: [door])
    }

    /// All of Foundation adds 40 MB of language tables to a statically linked executable.
    @Test func `what is shipped imports the essential part of Foundation alone`() throws {
        let ownTools = ["Sources/EmbedFiles/"]
        var essentialCount = 0
        for file in try repository.files(in: "Sources", endings: [".swift"]) where !isIn(file, ownTools) {
            for line in file.code where words(in: line.text).contains("import") {
                let modules = words(in: line.text).filter { $0.hasPrefix("Foundation") }
                essentialCount += modules.count
                #expect(modules.allSatisfy { $0 == "FoundationEssentials" }, "\(file.path):\(line.number)")
            }
        }
        #expect(essentialCount > 50)
    }

    @Test(arguments: ["QueueCore", "HTTP2"])
    func `what is pure imports nothing that acts`(target: String) throws {
        let acting = ["Glibc", "Dispatch", "Transport", "COpenSSL", "CPostgres", "FoundationNetworking"]
        for file in try repository.files(in: "Sources/\(target)", endings: [".swift"]) {
            for line in file.code where line.text.contains("import ") {
                #expect(!words(in: line.text).contains { acting.contains($0) }, "\(file.path):\(line.number)")
            }
        }
    }

    /// The manifest lists the layers from bottom to top.
    @Test func `a layer knows only what lies below it`() throws {
        let manifest = try String(contentsOf: repository.root.appending(path: "Package.swift"), encoding: .utf8)
        let layers = manifest.matches(of: /layer\(\s*"(\w+)"/).map { String($0.output.1) }
        #expect(layers.count >= 10)
        for (height, layer) in layers.enumerated() {
            for file in try repository.files(in: "Sources/\(layer)", endings: [".swift"]) {
                for line in file.code where words(in: line.text).contains("import") {
                    let above = words(in: line.text).first { layers[height...].contains($0) }
                    #expect(above == nil, "\(file.path):\(line.number) imports \(above ?? "")")
                }
            }
        }
    }

    private func expect(_ word: String, onlyIn places: [String], apartFrom exception: String? = nil) throws {
        for file in try repository.files(in: "Sources", endings: [".swift"]) where !isIn(file, places) {
            for line in file.code where words(in: line.text).contains(word) {
                if let exception, line.text.contains(exception) { continue }
                Issue.record("'\(word)' does not belong into \(file.path):\(line.number)")
            }
        }
    }

    private func isIn(_ file: Repository.File, _ places: [String]) -> Bool {
        places.contains { file.path.hasPrefix($0) }
    }

    private func words(in line: Substring) -> [String] {
        line.split { !$0.isLetter && !$0.isNumber && $0 != "_" }.map(String.init)
    }
}
