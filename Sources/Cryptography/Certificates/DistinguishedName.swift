/// The names of a certificate's holder that pushq uses (RFC 5280 §4.1.2.6).
package struct DistinguishedName: Equatable, Sendable {
    /// UID (0.9.2342.19200300.100.1.1): the topic of a push certificate.
    package var userID: String?
    /// CN, such as `Apple Push Services: com.example.App`.
    package var commonName: String?
    /// OU: the team's identifier.
    package var organizationalUnit: String?

    package init(userID: String? = nil, commonName: String? = nil, organizationalUnit: String? = nil) {
        self.userID = userID
        self.commonName = commonName
        self.organizationalUnit = organizationalUnit
    }
}
