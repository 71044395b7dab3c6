import Foundation
import Testing

/// Whoever reaches such a server is its superuser, who can run programs as the server's user. Servers that Swift starts
/// are in a `ServerFolder`, which only their user may enter.
@Suite struct `A server of a script that asks for no password` {
    private let repository = Repository()

    @Test func `is in a folder that no other user may enter`() throws {
        let python = try ["Tests/Oracle", "bench"].flatMap { try repository.files(in: $0, endings: [".py"]) }
        let names = try FileManager.default.contentsOfDirectory(
            atPath: repository.root.appending(path: "scripts").path)
        let starters = try (python + repository.files(in: "scripts", endings: names)).filter {
            $0.text.contains("--auth=trust")
        }
        #expect(starters.count >= 3)
        for file in starters {
            #expect(file.text.contains(/mode=0o700|install -d -m 700/), "\(file.path): the server's own folder")
            #expect(!file.text.contains(/\b(?:0o)?7[0-7][57]\b/), "\(file.path): a folder that others may read")
        }
    }
}
