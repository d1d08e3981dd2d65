/// A class whose instances are the objects of an entity. ``ManagedObject`` is the only direct conformer; its
/// subclasses are what entities name. Models refer to classes through this, because the graph lies below them.
public protocol EntityClass: AnyObject, SendableMetatype {}
