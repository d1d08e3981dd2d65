extension FetchedResultsController {
    /// Tells the delegate, and those who consume snapshots, what has become of the results.
    func tell(_ changes: ResultChanges) {
        guard let delegate else { return tellSnapshot() }
        let isBatch =
            !changes.deletedSections.isEmpty || !changes.insertedSections.isEmpty
            || changes.objects.contains { $0.type != nil }
        if isBatch { delegate.controllerWillChangeContent(self) }
        for section in changes.deletedSections {
            delegate.controller(
                self, didChangeSection: section.name, atSectionIndex: section.index, for: .delete)
        }
        for section in changes.insertedSections {
            delegate.controller(
                self, didChangeSection: section.name, atSectionIndex: section.index, for: .insert)
        }
        for object in changes.objects {
            guard let type = object.type else { continue }
            let bits = type == .delete ? object.oldBits : object.bits
            delegate.controller(
                self, didChange: managedObjectContext.objectID(bits: bits),
                at: object.old?.indexPath, for: type, newIndexPath: object.new?.indexPath)
        }
        tellSnapshot()
        if let difference = changes.difference(identifiedBy: managedObjectContext.objectID(bits:)) {
            delegate.controller(self, didChangeContentWith: difference)
        }
        if isBatch { delegate.controllerDidChangeContent(self) }
    }

    /// Tells the delegate, and those who consume them, a snapshot.
    func tellSnapshot() {
        guard let list = state?.list else { return }
        broadcast.send(FetchedResultsSnapshot(list, of: managedObjectContext))
        delegate?.controller(
            self, didChangeContentWith: FetchedResultsSnapshot(list, of: managedObjectContext))
    }
}

extension ResultChanges.Object {
    /// What a delegate is told; `nil` if nothing but the identifier has changed.
    var type: FetchedResultsChangeType? {
        if old == nil { return .insert }
        if new == nil { return .delete }
        return isMove ? .move : isUpdate ? .update : nil
    }
}

extension ResultChanges {
    /// What has become of the identifiers, without regard to sections.
    func difference(
        identifiedBy objectID: (UInt64) -> ManagedObjectID
    ) -> CollectionDifference<ManagedObjectID>? {
        var steps: [CollectionDifference<ManagedObjectID>.Change] = []
        for object in objects
        where object.isMove || object.oldBits != object.bits
            || object.old == nil || object.new == nil
        {
            if let old = object.old {
                steps.append(
                    .remove(
                        offset: old.position, element: objectID(object.oldBits),
                        associatedWith: object.new?.position))
            }
            if let new = object.new {
                steps.append(
                    .insert(
                        offset: new.position, element: objectID(object.bits),
                        associatedWith: object.old?.position))
            }
        }
        return CollectionDifference(steps)
    }
}
