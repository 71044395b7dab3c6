import COpenSSL
package import FoundationEssentials

/// A private certificate authority. It issues the certificates of the simulator and the tests. Keys are EC on P-256.
package struct CertificateAuthority: Sendable {
    package let certificate: Certificate
    package let privateKey: PrivateKey

    /// Uses an authority that was made before.
    package init(certificate: Certificate, privateKey: PrivateKey) {
        self.certificate = certificate
        self.privateKey = privateKey
    }

    /// Makes a self-signed root.
    package static func make(
        commonName: String, validity: Range<Date> = Self.days(3650)
    ) throws(CryptographyError) -> CertificateAuthority {
        let key = try PrivateKey.makeP256()
        let subject = DistinguishedName(commonName: commonName)
        let draft = try CertificateDraft(subject: subject, key: key, validity: validity)
        unsafe try draft.setIssuer(draft.pointer)
        try draft.add(NID_basic_constraints, "critical,CA:TRUE")
        try draft.add(NID_key_usage, "critical,keyCertSign,cRLSign")
        return CertificateAuthority(certificate: try draft.signed(by: key), privateKey: key)
    }

    /// Issues a server's certificate for host names and IP addresses.
    /// - Parameter commonName: nil for the first of the names. It is not a name of the server: without `names`, no
    ///   client may accept the certificate.
    package func issueServer(
        names: [String], commonName: String? = nil, validity: Range<Date> = Self.days(397)
    ) throws(CryptographyError) -> TLSIdentity {
        let alternatives = names.map { ($0.isIPAddress ? "IP:" : "DNS:") + $0 }.joined(separator: ",")
        let subject = DistinguishedName(commonName: commonName ?? names.first)
        return try issue(subject, validity: validity) { (draft) throws(CryptographyError) in
            try draft.add(NID_ext_key_usage, "serverAuth")
            if !names.isEmpty { try draft.add(NID_subject_alt_name, alternatives) }
        }
    }

    /// Issues a client's certificate in the form of Apple's push certificates.
    package func issueClient(
        _ subject: DistinguishedName, apns: APNsExtensions = .init(), validity: Range<Date> = Self.days(395)
    ) throws(CryptographyError) -> TLSIdentity {
        try issue(subject, validity: validity) { (draft) throws(CryptographyError) in
            try draft.add(NID_ext_key_usage, "clientAuth")
            for (oid, value) in apns.encoded() { try draft.add(oid: oid, value: value) }
        }
    }

    /// Returns a validity of this number of days. It begins an hour ago, so that a machine whose clock is a little late
    /// accepts the certificate.
    package static func days(_ count: Int) -> Range<Date> {
        Date(timeIntervalSinceNow: -3600)..<Date(timeIntervalSinceNow: Double(count) * 86_400)
    }

    private func issue(
        _ subject: DistinguishedName, validity: Range<Date>,
        extending: (CertificateDraft) throws(CryptographyError) -> Void
    ) throws(CryptographyError) -> TLSIdentity {
        let key = try PrivateKey.makeP256()
        let draft = try CertificateDraft(subject: subject, key: key, validity: validity)
        unsafe try draft.setIssuer(certificate.pointer)
        try draft.add(NID_basic_constraints, "critical,CA:FALSE")
        try draft.add(NID_key_usage, "critical,digitalSignature")
        try extending(draft)
        return try TLSIdentity(certificate: try draft.signed(by: privateKey), privateKey: key)
    }
}

extension String {
    /// Whether a server's certificate can have the text as a name: an IP address, or a host name in ASCII.
    package var isServerName: Bool {
        isIPAddress
            || !isEmpty && utf8.count <= 253 && !hasPrefix("-") && !hasPrefix(".")
                && utf8.allSatisfy { byte in
                    UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20
                        || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
                        || byte == UInt8(ascii: "-") || byte == UInt8(ascii: ".")
                }
    }

    /// Whether the text is an IPv4 or IPv6 address, not a host name.
    package var isIPAddress: Bool {
        let octets = unsafe a2i_IPADDRESS(self)
        _ = OpenSSLErrors.drain()
        defer { unsafe ASN1_OCTET_STRING_free(octets) }
        return unsafe octets != nil
    }
}

/// The only owner of an `X509` that is being made.
@safe private final class CertificateDraft {
    let pointer: OpaquePointer

    init(subject: DistinguishedName, key: PrivateKey, validity: Range<Date>) throws(CryptographyError) {
        unsafe pointer = try OpenSSLErrors.unwrap(X509_new(), "X509_new")
        // The number 2 stands for version 3.
        try OpenSSLErrors.check(unsafe X509_set_version(pointer, 2), "X509_set_version")
        try OpenSSLErrors.check(unsafe X509_set_pubkey(pointer, key.pointer), "X509_set_pubkey")
        try setSerialNumber()
        let (from, to) = (validity.lowerBound.timeIntervalSince1970, validity.upperBound.timeIntervalSince1970)
        unsafe ASN1_TIME_set(X509_getm_notBefore(pointer), Int(from))
        unsafe ASN1_TIME_set(X509_getm_notAfter(pointer), Int(to))
        try setName("UID", subject.userID)
        try setName("CN", subject.commonName)
        try setName("OU", subject.organizationalUnit)
    }

    deinit {
        unsafe X509_free(pointer)
    }

    func setIssuer(_ issuer: OpaquePointer) throws(CryptographyError) {
        let result = unsafe X509_set_issuer_name(pointer, X509_get_subject_name(issuer))
        try OpenSSLErrors.check(result, "X509_set_issuer_name")
    }

    /// Adds an extension in OpenSSL's configuration syntax, x509v3_config(5).
    func add(_ kind: CInt, _ value: String) throws(CryptographyError) {
        let made = unsafe try OpenSSLErrors.unwrap(
            X509V3_EXT_conf_nid(nil, nil, kind, value), "X509V3_EXT_conf_nid")
        defer { unsafe X509_EXTENSION_free(made) }
        try OpenSSLErrors.check(unsafe X509_add_ext(pointer, made, -1), "X509_add_ext")
    }

    func add(oid: String, value: [UInt8]) throws(CryptographyError) {
        let object = unsafe OBJ_txt2obj(oid, 1)
        let octets = unsafe ASN1_OCTET_STRING_new()
        defer {
            unsafe ASN1_OBJECT_free(object)
            unsafe ASN1_OCTET_STRING_free(octets)
        }
        unsafe ASN1_OCTET_STRING_set(octets, value, CInt(value.count))
        let made = unsafe try OpenSSLErrors.unwrap(
            X509_EXTENSION_create_by_OBJ(nil, object, 0, octets), "X509_EXTENSION_create_by_OBJ")
        defer { unsafe X509_EXTENSION_free(made) }
        try OpenSSLErrors.check(unsafe X509_add_ext(pointer, made, -1), "X509_add_ext")
    }

    func signed(by key: PrivateKey) throws(CryptographyError) -> Certificate {
        let byteCount = unsafe X509_sign(pointer, key.pointer, EVP_sha256())
        try OpenSSLErrors.check(byteCount > 0 ? 1 : 0, "X509_sign")
        unsafe X509_up_ref(pointer)
        return unsafe try Certificate(owning: pointer)
    }

    private func setSerialNumber() throws(CryptographyError) {
        // Sixteen random bytes, positive (RFC 5280 §4.1.2.2).
        var bytes = try SecureRandom.bytes(16)
        bytes[0] &= 0x7F
        let number = unsafe BN_bin2bn(bytes, CInt(bytes.count), nil)
        defer { unsafe BN_free(number) }
        unsafe BN_to_ASN1_INTEGER(number, X509_get_serialNumber(pointer))
    }

    private func setName(_ field: String, _ value: String?) throws(CryptographyError) {
        guard let value else { return }
        let bytes = Array(value.utf8)
        let result = unsafe X509_NAME_add_entry_by_txt(
            X509_get_subject_name(pointer), field, MBSTRING_UTF8, bytes, CInt(bytes.count), -1, 0)
        try OpenSSLErrors.check(result, "X509_NAME_add_entry_by_txt")
    }
}
