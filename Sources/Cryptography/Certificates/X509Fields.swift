import COpenSSL
import FoundationEssentials
import Glibc

/// Copies the fields of an `X509` out of OpenSSL's structures. The pointers are borrowed.
@safe enum X509Fields {
    static func subject(of certificate: OpaquePointer) -> DistinguishedName {
        let name = unsafe X509_get_subject_name(certificate)
        return unsafe DistinguishedName(
            userID: text(NID_userId, of: name), commonName: text(NID_commonName, of: name),
            organizationalUnit: text(NID_organizationalUnitName, of: name))
    }

    /// Returns a name in one line, in the form of RFC 2253 but with unescaped UTF-8.
    static func line(_ name: OpaquePointer?) -> String {
        guard let name = unsafe name, let memory = try? MemoryBIO() else { return "" }
        unsafe X509_NAME_print_ex(memory.pointer, name, 0, pushq_XN_FLAG_ONE_LINE)
        return memory.text
    }

    static func date(_ time: UnsafePointer<ASN1_TIME>?) -> Date {
        var parts = unsafe tm()
        guard unsafe ASN1_TIME_to_tm(time, &parts) == 1 else {
            _ = OpenSSLErrors.drain()
            return .distantPast
        }
        return Date(timeIntervalSince1970: Double(unsafe timegm(&parts)))
    }

    static func fingerprint(of certificate: OpaquePointer) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: SHA256.byteCount)
        var count: UInt32 = 0
        let result = unsafe X509_digest(certificate, EVP_sha256(), &digest, &count)
        precondition(result == 1 && count == digest.count, "a certificate that was parsed has a digest")
        return digest
    }

    static func apnsExtensions(of certificate: OpaquePointer) throws(CryptographyError) -> APNsExtensions {
        var extensions = APNsExtensions()
        unsafe extensions.isForSandbox = value(APNsExtensions.sandboxOID, of: certificate) != nil
        unsafe extensions.isForProduction = value(APNsExtensions.productionOID, of: certificate) != nil
        if let list = unsafe value(APNsExtensions.voipTopicsOID, of: certificate) {
            extensions.voipTopics = APNsExtensions.voipTopics(fromDER: list)
        }
        guard let list = unsafe value(APNsExtensions.topicsOID, of: certificate) else { return extensions }
        guard let topics = APNsExtensions.topics(fromDER: list) else {
            throw .unreadable(
                what: "certificate", reason: "its list of topics (\(APNsExtensions.topicsOID)) is malformed")
        }
        extensions.topics = topics
        return extensions
    }

    private static func text(_ field: CInt, of name: OpaquePointer?) -> String? {
        let index = unsafe X509_NAME_get_index_by_NID(name, field, -1)
        guard index >= 0, let entry = unsafe X509_NAME_get_entry(name, index) else { return nil }
        var start: UnsafeMutablePointer<UInt8>?
        let count = unsafe ASN1_STRING_to_UTF8(&start, X509_NAME_ENTRY_get_data(entry))
        guard count >= 0, let start = unsafe start else { return nil }
        defer { unsafe CRYPTO_free(start, #file, #line) }
        return unsafe String(decoding: UnsafeBufferPointer(start: start, count: Int(count)), as: UTF8.self)
    }

    private static func value(_ oid: String, of certificate: OpaquePointer) -> [UInt8]? {
        let object = unsafe OBJ_txt2obj(oid, 1)
        defer { unsafe ASN1_OBJECT_free(object) }
        let index = unsafe X509_get_ext_by_OBJ(certificate, object, -1)
        guard index >= 0, let found = unsafe X509_get_ext(certificate, index) else { return nil }
        let octets = unsafe X509_EXTENSION_get_data(found)
        let count = unsafe Int(ASN1_STRING_length(octets))
        return unsafe UnsafeBufferPointer(start: ASN1_STRING_get0_data(octets), count: count).map { $0 }
    }
}
