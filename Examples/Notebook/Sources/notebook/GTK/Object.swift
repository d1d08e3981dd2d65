import CGTK

/// Owns a reference to a GObject. Everything in this folder that touches a C pointer does so through one of these.
@MainActor
class Object {
    let reference: OpaquePointer

    /// Retains an object. New widgets come with a “floating” reference, which this takes over.
    ///
    /// - Parameter isOwned: Whether the caller has a reference that is to be taken over instead.
    init(_ reference: OpaquePointer, isOwned: Bool = false) {
        self.reference = reference
        if !isOwned { g_object_ref_sink(UnsafeMutableRawPointer(reference)) }
    }

    isolated deinit { g_object_unref(UnsafeMutableRawPointer(reference)) }

    /// The object as the type that a function of GTK asks for. C casts as freely.
    func pointer<Type>(_ type: Type.Type = Type.self) -> UnsafeMutablePointer<Type> {
        UnsafeMutablePointer(reference)
    }

    // MARK: - Signals

    /// Runs a closure at each signal. The object retains the closure, which should not retain the object.
    func on(_ signal: String, _ body: @escaping @MainActor () -> Void) {
        let function: @convention(c) (gpointer) -> Void = { closure($0)(0) }
        connect(signal, unsafeBitCast(function, to: GCallback.self)) { _ in body() }
    }

    /// Runs a closure at each signal that has a number, such as the response to a dialog.
    func onNumber(_ signal: String, _ body: @escaping @MainActor (Int32) -> Void) {
        let function: @convention(c) (gpointer, Int32) -> Void = { closure($0)($1) }
        connect(signal, unsafeBitCast(function, to: GCallback.self), body)
    }

    /// Runs a closure instead of what GTK does at a signal that asks.
    func instead(of signal: String, _ body: @escaping @MainActor () -> Void) {
        let function: @convention(c) (gpointer) -> gboolean = {
            closure($0)(0)
            return 1
        }
        connect(signal, unsafeBitCast(function, to: GCallback.self)) { _ in body() }
    }

    /// Connects a C function, which gets the closure as its first argument: the signal is “swapped”.
    private func connect(
        _ signal: String, _ function: GCallback, _ body: @escaping @MainActor (Int32) -> Void
    ) {
        g_signal_connect_data(
            UnsafeMutableRawPointer(reference), signal, function,
            Unmanaged.passRetained(Closure(body)).toOpaque(),
            { data, _ in data.map { Unmanaged<Closure>.fromOpaque($0).release() } },
            G_CONNECT_SWAPPED)
    }
}

private final class Closure: Sendable {
    let body: @MainActor (Int32) -> Void

    init(_ body: @escaping @MainActor (Int32) -> Void) { self.body = body }
}

/// The closure that a signal was connected with. GTK emits signals on the main thread.
private func closure(_ data: gpointer) -> (Int32) -> Void {
    let closure = Unmanaged<Closure>.fromOpaque(data).takeUnretainedValue()
    return { number in MainActor.assumeIsolated { closure.body(number) } }
}
