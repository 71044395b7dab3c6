import Foundation
import Testing
import Transport

@Suite struct `A file` {
    private let path = FileManager.default.temporaryDirectory.appending(path: "pushq-\(UUID().uuidString)").path

    @Test func `is read as it was written, in pieces and whole`() throws {
        defer { try? FileManager.default.removeItem(atPath: path) }
        let bytes = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        try OpenFile.writing(path).write(bytes)
        #expect(try OpenFile.reading(path).readToEnd() == bytes)
        let file = try OpenFile.reading(path)
        #expect(try file.read(upTo: 10) == Array(bytes.prefix(10)))
        #expect(try file.readToEnd() == Array(bytes.dropFirst(10)))
        #expect(try file.read(upTo: 10) == [])
        try OpenFile.writing(path).write([1])
        #expect(try OpenFile.reading(path).readToEnd() == [1])
    }

    @Test func `says why it cannot be opened, read or written`() throws {
        let missing = #expect(throws: OpenFile.Failure.self) { try OpenFile.reading(path) }
        #expect(missing?.isMissing == true)
        let folder = #expect(throws: OpenFile.Failure.self) { try OpenFile.reading("/").readToEnd() }
        #expect(folder?.description == "Is a directory")
        let full = #expect(throws: OpenFile.Failure.self) { try OpenFile.writing("/dev/full").write([1]) }
        #expect(full?.description == "No space left on device")
        #expect(full?.isMissing == false)
    }

    /// By the time it is closed a second time, its descriptor may belong to another file.
    @Test func `is closed once`() throws {
        defer { try? FileManager.default.removeItem(atPath: path) }
        let file = try OpenFile.writing(path)
        file.close()
        #expect(throws: OpenFile.Failure.self) { try file.write([1]) }
        file.close()
    }

    @Test func `has a status, and a link has that of its target`() throws {
        defer { for name in [path, path + "-link"] { try? FileManager.default.removeItem(atPath: name) } }
        try OpenFile.writing(path).write([1])
        try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: path)
        try FileManager.default.createSymbolicLink(atPath: path + "-link", withDestinationPath: path)
        for name in [path, path + "-link"] {
            let status = try #require(FileStatus(name))
            #expect(status.isRegular && !status.isFolder && status.permissions == 0o640 && status.owner == geteuid())
        }
        #expect(FileStatus("/")?.isFolder == true)
        #expect(FileStatus("/dev/null")?.isRegular == false)
        #expect(FileStatus(path + "-nowhere") == nil)
    }
}
