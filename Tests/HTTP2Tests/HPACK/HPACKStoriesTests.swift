import Foundation
import Testing

@testable import HTTP2

/// The stories of http2jp's hpack-test-case: header lists written by three independent encoders.
@Suite struct `Header blocks of other encoders` {
    /// `PUSHQ_HPACK_STORIES`, or `shared/vectors/hpack` beside the repository.
    static let folder: URL? = {
        let beside = URL(filePath: #filePath).appending(path: "../../../../../shared/vectors/hpack").standardized
        let named = ProcessInfo.processInfo.environment["PUSHQ_HPACK_STORIES"].map { URL(filePath: $0) }
        let folder = named ?? beside
        return FileManager.default.fileExists(atPath: folder.path) ? folder : nil
    }()

    static let stories: [URL] = {
        guard let folder, let found = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil) else {
            return []
        }
        let files = found.compactMap { $0 as? URL }.filter { $0.pathExtension == "json" }
        return files.sorted { $0.path < $1.path }
    }()

    struct Story: Decodable {
        struct Case: Decodable {
            var wire: String
            var headers: [[String: String]]
            var headerTableSize: Int?

            enum CodingKeys: String, CodingKey {
                case wire, headers
                case headerTableSize = "header_table_size"
            }
        }
        var cases: [Case]
    }

    @Test(.enabled(if: folder != nil, "the stories are not here; PUSHQ_HPACK_STORIES may name their folder"))
    func `are there to be read`() { #expect(Self.stories.count >= 3) }

    @Test(
        .enabled(if: folder != nil, "the stories are not here; PUSHQ_HPACK_STORIES may name their folder"),
        arguments: stories)
    func `are read field by field`(story: URL) throws {
        let cases = try JSONDecoder().decode(Story.self, from: Data(contentsOf: story)).cases
        #expect(!cases.isEmpty)
        var decoder = HPACKDecoder(limits: .init(listByteCount: 1 << 20, fieldCount: 1000))
        var section = FieldSection()
        var tableSize = 4096
        for (number, item) in cases.enumerated() {
            if let size = item.headerTableSize, size != tableSize {
                decoder.setCapacityLimit(size)
                tableSize = size
            }
            try decoder.decode(hex(item.wire).span, into: &section)
            let expected = item.headers.flatMap { $0.map { $0 + ": " + $1 } }
            #expect(section.lines == expected, "case \(number) of \(story.lastPathComponent)")
        }
    }
}
