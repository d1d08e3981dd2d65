import Dispatch
import FlyingFox
import Foundation
import QuireDocuments

let usage = """
    document-server FOLDER [--port NUMBER] [--open COUNT]

      --port NUMBER   listen on this port of 127.0.0.1; 0 for any (default: 8080)
      --open COUNT    keep at most so many documents open (default: 100)
    """

func fail(_ message: String) -> Never {
    FileHandle.standardError.write(Data((message + "\n").utf8))
    exit(1)
}

var arguments = CommandLine.arguments.dropFirst()
var (folder, port, limit) = ("", UInt16(8080), 100)
while let argument = arguments.popFirst() {
    switch argument {
    case "--port":
        guard let number = arguments.popFirst().flatMap(UInt16.init) else { fail(usage) }
        port = number
    case "--open":
        guard let number = arguments.popFirst().flatMap({ Int($0) }), number > 0 else { fail(usage) }
        limit = number
    default:
        if argument.hasPrefix("-") || !folder.isEmpty { fail(usage) }
        folder = argument
    }
}
if folder.isEmpty { fail(usage) }

// An open document uses eight file descriptors, and a connection one.
var descriptors = rlimit()
getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &descriptors)
descriptors.rlim_cur = descriptors.rlim_max
setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &descriptors)

// Installed before the first document is opened.
signal(SIGTERM, SIG_IGN)
signal(SIGINT, SIG_IGN)
let (signals, signalled) = AsyncStream.makeStream(of: Void.self)
let sources = [SIGTERM, SIGINT].map { number in
    let source = DispatchSource.makeSignalSource(signal: number, queue: .main)
    source.setEventHandler { signalled.yield() }
    source.resume()
    return source
}

let documents = OpenDocuments(folder: folder, limit: limit)
let server = HTTPServer(
    config: .init(
        address: try .inet(ip4: "127.0.0.1", port: port), timeout: 60, logger: .disabled),
    handler: Routes(documents: documents))
let serving = Task { try await server.run() }
do { try await server.waitUntilListening() } catch { fail("Port \(port) cannot be used.") }
if case .ip4(_, let port) = await server.listeningAddress {
    let line = "Serving \(documents.library.folder) at http://127.0.0.1:\(port)\n"
    FileHandle.standardOutput.write(Data(line.utf8))
}

// Requests that have begun are answered; then all documents are closed.
for await _ in signals { break }
await server.stop(timeout: 10)
await documents.closeAll()
withExtendedLifetime(sources) {}
exit(0)
