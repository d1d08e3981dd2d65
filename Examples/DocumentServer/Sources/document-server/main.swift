import Dispatch
import FlyingFox
import FlyingSocks
import Foundation
import QuireDocuments

func fail(_ message: String) -> Never {
    FileHandle.standardError.write(Data((message + "\n").utf8))
    exit(1)
}

let usage = """
    document-server FOLDER [--port NUMBER] [--open COUNT]

      --port NUMBER   the port of 127.0.0.1; 0 for a free one (default: 8080)
      --open COUNT    the number of documents to keep open (default: 100)
    """
var arguments = Array(CommandLine.arguments.dropFirst())

@MainActor func option(_ name: String, default value: Int, in range: ClosedRange<Int>) -> Int {
    guard let index = arguments.firstIndex(of: name) else { return value }
    guard arguments.indices.contains(index + 1), let number = Int(arguments[index + 1]),
        range.contains(number)
    else { fail(usage) }
    arguments.removeSubrange(index...index + 1)
    return number
}

let port = UInt16(option("--port", default: 8080, in: 0...65_535))
let limit = option("--open", default: 100, in: 1...10_000)
guard arguments.count == 1, !arguments[0].hasPrefix("-") else { fail(usage) }

// An open document uses eight file descriptors and more, and a connection one.
var descriptors = rlimit()
getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &descriptors)
descriptors.rlim_cur = descriptors.rlim_max
setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &descriptors)

let (signals, received) = AsyncStream.makeStream(of: Void.self)
let sources = [SIGTERM, SIGINT].map { number in
    signal(number, SIG_IGN)
    let source = DispatchSource.makeSignalSource(signal: number, queue: .main)
    source.setEventHandler { received.yield() }
    source.resume()
    return source
}

/// Sockets without Nagle's algorithm. The server sends head and body of a response separately, and the body would wait until the
/// client has acknowledged the head, which takes it 40 ms.
struct PromptSockets: AsyncSocketPool {
    let sockets: any AsyncSocketPool = HTTPServer.defaultPool()

    func prepare() async throws { try await sockets.prepare() }

    func run() async throws { try await sockets.run() }

    func suspendSocket(_ socket: Socket, untilReadyFor events: Socket.Events) async throws {
        var isOn: Int32 = 1
        setsockopt(socket.file.rawValue, Int32(IPPROTO_TCP), TCP_NODELAY, &isOn, 4)
        try await sockets.suspendSocket(socket, untilReadyFor: events)
    }
}

let documents = OpenDocuments(folder: arguments[0], limit: limit)
let server = HTTPServer(
    config: .init(
        address: try .inet(ip4: "127.0.0.1", port: port), timeout: 60, pool: PromptSockets(),
        logger: .disabled),
    handler: Routes(documents: documents))
var isStopping = false
let serving = Task {
    do { try await server.run() } catch {
        if !isStopping {
            fail("The server cannot listen on port \(port): \(error.localizedDescription)")
        }
    }
}
try await server.waitUntilListening()
if case .ip4(_, let port) = await server.listeningAddress {
    let line = "Serving \(documents.library.folder) at http://127.0.0.1:\(port)\n"
    FileHandle.standardOutput.write(Data(line.utf8))
}

// At the first signal: requests that have begun are answered, then all documents are closed. Two seconds, because the server also
// waits for connections on which no request is under way.
for await _ in signals { break }
isStopping = true
await server.stop(timeout: 2)
await documents.closeAll()
withExtendedLifetime(sources) { exit(0) }
