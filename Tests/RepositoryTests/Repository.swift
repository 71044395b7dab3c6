import Foundation

/// The files of this repository, as the tests need them.
struct Repository {
    let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    struct File: Hashable {
        /// The path relative to the root: `Sources/QueueCore/Names/QueueName.swift`.
        let path: String
        let text: String

        var lines: [Substring] { text.split(separator: "\n", omittingEmptySubsequences: false) }

        /// The lines of Swift code without comments after `//`, numbered from 1.
        var code: [(number: Int, text: Substring)] {
            lines.enumerated().map { index, line in
                (index + 1, line.firstRange(of: "//").map { line[..<$0.lowerBound] } ?? line)
            }
        }
    }

    /// All files below `folder` whose names end in one of `endings`, except built files.
    func files(in folder: String, endings: [String]) throws -> [File] {
        let start = root.appending(path: folder)
        let names = try FileManager.default.subpathsOfDirectory(atPath: start.path)
        return try names.sorted().filter { name in endings.contains { name.hasSuffix($0) } }.map { name in
            let text = try String(contentsOf: start.appending(path: name), encoding: .utf8)
            return File(path: "\(folder)/\(name)", text: text)
        }
    }

    /// The folders in `Sources` that contain Swift files.
    func targets() throws -> [String] {
        let paths = try files(in: "Sources", endings: [".swift"]).map(\.path)
        return Set(paths.map { String($0.split(separator: "/")[1]) }).sorted()
    }

    /// All Swift files of the package.
    func swiftFiles() throws -> [File] {
        try ["Sources", "Tests", "Plugins", "bench", "fuzz"].flatMap { try files(in: $0, endings: [".swift"]) }
    }

    /// All texts for readers: those in the root, and in `docs/`.
    func documents() throws -> [File] {
        let inRoot = try FileManager.default.contentsOfDirectory(atPath: root.path).filter { $0.hasSuffix(".md") }
        return try inRoot.sorted().map { name in
            File(path: name, text: try String(contentsOf: root.appending(path: name), encoding: .utf8))
        } + (exists("docs") ? files(in: "docs", endings: [".md"]) : [])
    }

    /// Whether there is a file or folder at `path`, relative to the root.
    func exists(_ path: String) -> Bool {
        FileManager.default.fileExists(atPath: root.appending(path: path).path)
    }
}
