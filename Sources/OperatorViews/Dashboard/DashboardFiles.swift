import HTTP1

/// The files of the page, which are embedded in the program.
enum DashboardFiles {
    private static let types = [
        ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
        ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
    ]

    /// The header fields of every answer. The page loads nothing from elsewhere, has no inline code or styles, sends
    /// nothing to other sites, and cannot be framed by another page.
    static let pageFields = [
        (
            "content-security-policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
                + "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
        ),
        ("x-frame-options", "DENY"), ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"), ("cross-origin-resource-policy", "same-origin"),
    ]

    private static let responses = Dictionary(
        uniqueKeysWithValues: EmbeddedDashboard.files.map { file in
            let type = types.first { file.name.hasSuffix($0.key) }?.value ?? "text/plain; charset=utf-8"
            let path = file.name == "index.html" ? "/" : "/" + file.name
            return (path, Response(contentType: type, body: Array(file.text.utf8)))
        })

    /// Returns the file at a path; nil if there is none. Browsers also ask for an icon at a path of their own.
    static func response(for path: String) -> Response? {
        responses[path == "/favicon.ico" ? "/favicon.svg" : path]
    }
}
