/// Apple's extensions in a push certificate, under the OID 1.2.840.113635.100.6.3.
package struct APNsExtensions: Equatable, Sendable {
    /// One entry of the topic list.
    package struct Topic: Equatable, Sendable {
        /// The topic, such as `com.example.App.voip`.
        package var name: String
        /// The uses of the topic, such as `app`, `voip` or `complication`.
        package var kinds: [String]

        package init(name: String, kinds: [String]) {
            self.name = name
            self.kinds = kinds
        }
    }

    /// Whether the certificate has the mark `.1`. Certificates for passes and website push have neither mark.
    package var isForSandbox: Bool
    /// Whether the certificate has the mark `.2`.
    package var isForProduction: Bool
    /// The list `.6`. It is empty if the certificate has none; the topic is then the subject's UID.
    package var topics: [Topic]
    /// The topics of `.4`, which certificates for VoIP had before the list existed; empty if the certificate has none.
    package var voipTopics: [String]

    package init(
        isForSandbox: Bool = false, isForProduction: Bool = false, topics: [Topic] = [], voipTopics: [String] = []
    ) {
        self.isForSandbox = isForSandbox
        self.isForProduction = isForProduction
        self.topics = topics
        self.voipTopics = voipTopics
    }

    package static let sandboxOID = "1.2.840.113635.100.6.3.1"
    package static let productionOID = "1.2.840.113635.100.6.3.2"
    package static let voipTopicsOID = "1.2.840.113635.100.6.3.4"
    package static let topicsOID = "1.2.840.113635.100.6.3.6"

    /// Reads the list of topics. It is one flat sequence, in which names of topics and sequences of their kinds
    /// alternate; it does not contain pairs. Nil for anything else.
    static func topics(fromDER bytes: [UInt8]) -> [Topic]? {
        var outer = DERReader(bytes)
        guard let list = outer.next(.sequence), outer.isAtEnd else { return nil }
        var reader = DERReader(list)
        var topics: [Topic] = []
        while !reader.isAtEnd {
            guard let name = reader.nextString(), let content = reader.next(.sequence) else { return nil }
            var kinds = DERReader(content)
            var topic = Topic(name: name, kinds: [])
            while !kinds.isAtEnd {
                guard let kind = kinds.nextString() else { return nil }
                topic.kinds.append(kind)
            }
            topics.append(topic)
        }
        return topics
    }

    /// Reads the topics of `.4`: one text with commas between the topics. Empty for anything else, since such a
    /// certificate also has its subject.
    static func voipTopics(fromDER bytes: [UInt8]) -> [String] {
        var reader = DERReader(bytes)
        guard let text = reader.nextString(), reader.isAtEnd else { return [] }
        return text.split { $0 == "," || $0 == " " }.map(String.init)
    }

    /// Returns the extensions in the form of a certificate: OID and value.
    func encoded() -> [(oid: String, value: [UInt8])] {
        var extensions: [(oid: String, value: [UInt8])] = []
        if isForSandbox { extensions.append((Self.sandboxOID, DERReader.Tag.null.element([]))) }
        if isForProduction { extensions.append((Self.productionOID, DERReader.Tag.null.element([]))) }
        if !voipTopics.isEmpty {
            extensions.append((Self.voipTopicsOID, Self.string(voipTopics.joined(separator: ", "))))
        }
        guard !topics.isEmpty else { return extensions }
        let list = topics.flatMap { topic in
            Self.string(topic.name) + DERReader.Tag.sequence.element(topic.kinds.flatMap(Self.string))
        }
        return extensions + [(Self.topicsOID, DERReader.Tag.sequence.element(list))]
    }

    private static func string(_ text: String) -> [UInt8] {
        DERReader.Tag.utf8String.element(Array(text.utf8))
    }
}
