/// The response of a server.
package struct Response: Equatable, Sendable {
    package let status: Int
    /// The media type of the body.
    package let contentType: String
    package let body: [UInt8]
    /// Further fields, such as `Allow`.
    package let fields: [RequestHead.Field]

    package init(
        status: Int = 200, contentType: String = "text/plain; charset=utf-8", body: [UInt8],
        fields: [RequestHead.Field] = []
    ) {
        self.status = status
        self.contentType = contentType
        self.body = body
        self.fields = fields
    }

    /// A short answer in plain text.
    package init(status: Int = 200, text: String) {
        self.init(status: status, body: Array(text.utf8))
    }

    /// The answer to a method other than HEAD and `methods`.
    static func methodNotAllowed(_ methods: [String]) -> Response {
        let known = methods + ["HEAD"]
        return Response(
            status: 405, body: Array("only \(known.joined(separator: " and ")) are known here\n".utf8),
            fields: [.init(name: "allow", value: known.joined(separator: ", "))])
    }

    /// Returns the bytes on the wire. Caches must not store the answer, since each scrape needs the latest.
    func encoded(closes: Bool, hasBody: Bool, at seconds: Int) -> [UInt8] {
        var head = "HTTP/1.1 \(status) \(Self.phrases[status] ?? "Status")\r\n"
        head += "date: \(HTTPDate.text(of: seconds))\r\n"
        head += "content-type: \(contentType)\r\ncontent-length: \(body.count)\r\n"
        head += "cache-control: no-store\r\nx-content-type-options: nosniff\r\n"
        for field in fields { head += "\(field.name): \(field.value)\r\n" }
        if closes { head += "connection: close\r\n" }
        head += "\r\n"
        return Array(head.utf8) + (hasBody ? body : [])
    }

    private static let phrases = [
        200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
        405: "Method Not Allowed", 408: "Request Timeout", 409: "Conflict", 411: "Length Required",
        413: "Content Too Large", 415: "Unsupported Media Type", 421: "Misdirected Request", 429: "Too Many Requests",
        431: "Request Header Fields Too Large", 500: "Internal Server Error", 503: "Service Unavailable",
        505: "HTTP Version Not Supported",
    ]
}
