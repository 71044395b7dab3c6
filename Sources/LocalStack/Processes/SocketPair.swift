import Glibc
import Transport

/// The two ends of a stream between this program and a child.
///
/// It is a pair of sockets, because sockets can be made close-on-exec in one step. A child that another thread starts
/// at that moment could inherit an end of a pipe and keep it open while it runs, and the reader would wait for it.
struct SocketPair {
    let reading: OpenFile
    let writing: OpenFile

    init() throws(LocalStackError) {
        var ends: [CInt] = [-1, -1]
        let kind = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        guard unsafe socketpair(AF_UNIX, kind, 0, &ends) == 0 else {
            throw .cannotStart(executable: "a process", reason: unsafe String(cString: strerror(errno)))
        }
        reading = OpenFile(descriptor: ends[0])
        writing = OpenFile(descriptor: ends[1])
    }
}
