import CGTK

/// A GTK widget. Subclasses wrap only what this app uses.
class Widget: Object {
    init(_ new: UnsafeMutablePointer<GtkWidget>, classes: String...) {
        super.init(OpaquePointer(new))
        for name in classes { gtk_widget_add_css_class(new, name) }
    }

    var isVisible: Bool {
        get { gtk_widget_get_visible(pointer()) != 0 }
        set { gtk_widget_set_visible(pointer(), newValue ? 1 : 0) }
    }
    var isSensitive: Bool {
        get { gtk_widget_get_sensitive(pointer()) != 0 }
        set { gtk_widget_set_sensitive(pointer(), newValue ? 1 : 0) }
    }

    func setToolTip(_ text: String) { gtk_widget_set_tooltip_text(pointer(), text) }

    func focus() { gtk_widget_grab_focus(pointer()) }

    /// Is as wide as it needs to be, at one end of the space.
    func aligned(atEnd: Bool) -> Self {
        gtk_widget_set_halign(pointer(), atEnd ? GTK_ALIGN_END : GTK_ALIGN_START)
        return self
    }

    /// Takes all the space that there is.
    func expanding(vertically: Bool = true) -> Self {
        gtk_widget_set_hexpand(pointer(), 1)
        gtk_widget_set_vexpand(pointer(), vertically ? 1 : 0)
        return self
    }
}

final class Box: Widget {
    init(
        vertical: Bool = false, spacing: Int32 = 6, margin: Int32 = 0, style: String = "box",
        _ children: Widget...
    ) {
        super.init(
            gtk_box_new(vertical ? GTK_ORIENTATION_VERTICAL : GTK_ORIENTATION_HORIZONTAL, spacing),
            classes: style)
        gtk_widget_set_margin_start(pointer(), margin)
        gtk_widget_set_margin_end(pointer(), margin)
        gtk_widget_set_margin_top(pointer(), margin)
        gtk_widget_set_margin_bottom(pointer(), margin)
        for child in children { append(child) }
    }

    func append(_ child: Widget) { gtk_box_append(pointer(), child.pointer()) }

    func removeAll() {
        while let child = gtk_widget_get_first_child(pointer()) { gtk_box_remove(pointer(), child) }
    }
}

final class Label: Widget {
    init(_ text: String = "", style: String = "label", wraps: Bool = false) {
        super.init(gtk_label_new(text), classes: style)
        gtk_label_set_xalign(reference, 0)
        gtk_label_set_wrap(reference, wraps ? 1 : 0)
        gtk_label_set_max_width_chars(reference, wraps ? 60 : -1)
        gtk_label_set_ellipsize(reference, wraps ? PANGO_ELLIPSIZE_NONE : PANGO_ELLIPSIZE_END)
    }

    var text: String {
        get { String(cString: gtk_label_get_text(reference)) }
        set { gtk_label_set_text(reference, newValue) }
    }

    func centered() -> Self {
        gtk_label_set_xalign(reference, 0.5)
        return self
    }
}

final class Icon: Widget {
    init(_ name: String) { super.init(gtk_image_new_from_icon_name(name)) }
}

final class Button: Widget {
    init(_ title: String, style: String = "text", click: @escaping @MainActor () -> Void) {
        super.init(gtk_button_new_with_mnemonic(title), classes: style)
        on("clicked", click)
    }

    init(icon: String, toolTip: String, click: @escaping @MainActor () -> Void) {
        super.init(gtk_button_new_from_icon_name(icon), classes: "flat")
        setToolTip(toolTip)
        on("clicked", click)
    }

    /// A button for an action of its window, which is insensitive while the action is disabled.
    init(_ title: String, style: String, action: String) {
        super.init(gtk_button_new_with_mnemonic(title), classes: style)
        gtk_actionable_set_action_name(reference, action)
    }

    /// A button with a picture for an action of its window.
    init(icon: String, toolTip: String, action: String) {
        super.init(gtk_button_new_from_icon_name(icon))
        setToolTip(toolTip)
        gtk_actionable_set_action_name(reference, action)
    }
}

/// One line of text.
final class TextField: Widget {
    init(_ placeholder: String, isSecret: Bool = false, style: String = "field") {
        super.init(gtk_entry_new(), classes: style)
        gtk_entry_set_placeholder_text(pointer(), placeholder)
        gtk_entry_set_visibility(pointer(), isSecret ? 0 : 1)
        gtk_entry_set_activates_default(pointer(), 1)
        gtk_editable_set_enable_undo(reference, 0)  // The document undoes.
    }

    var text: String {
        get { String(cString: gtk_editable_get_text(reference)) }
        set { if text != newValue { gtk_editable_set_text(reference, newValue) } }
    }
}

/// Many lines of text.
final class TextArea: Widget {
    private let buffer: Object

    init() {
        let view = gtk_text_view_new()!
        buffer = Object(
            OpaquePointer(gtk_text_view_get_buffer(UnsafeMutablePointer(OpaquePointer(view)))))
        super.init(view)
        gtk_text_view_set_wrap_mode(pointer(), GTK_WRAP_WORD_CHAR)
        gtk_text_buffer_set_enable_undo(buffer.pointer(), 0)  // The document undoes.
    }

    /// Setting it keeps the cursor where it is, if it can.
    var text: String {
        get {
            var (start, end) = (GtkTextIter(), GtkTextIter())
            gtk_text_buffer_get_bounds(buffer.pointer(), &start, &end)
            guard let text = gtk_text_buffer_get_text(buffer.pointer(), &start, &end, 1) else {
                return ""
            }
            defer { g_free(text) }
            return String(cString: text)
        }
        set {
            if text == newValue { return }
            var place = GtkTextIter()
            gtk_text_buffer_get_iter_at_mark(
                buffer.pointer(), &place, gtk_text_buffer_get_insert(buffer.pointer()))
            let offset = gtk_text_iter_get_offset(&place)
            gtk_text_buffer_set_text(buffer.pointer(), newValue, -1)
            gtk_text_buffer_get_iter_at_offset(buffer.pointer(), &place, offset)
            gtk_text_buffer_place_cursor(buffer.pointer(), &place)
        }
    }

    func onChange(_ body: @escaping @MainActor () -> Void) { buffer.on("changed", body) }
}

/// A list in which one row may be selected.
final class List: Widget {
    init(style: String, onSelection: @escaping @MainActor (Int?) -> Void) {
        super.init(gtk_list_box_new(), classes: style)
        on("row-selected") { [weak self] in if let self { onSelection(selection) } }
    }

    var selection: Int? {
        get {
            guard let row = gtk_list_box_get_selected_row(reference) else { return nil }
            return Int(gtk_list_box_row_get_index(row))
        }
        set {
            let row = newValue.flatMap { gtk_list_box_get_row_at_index(reference, Int32($0)) }
            gtk_list_box_select_row(reference, row)
        }
    }

    func insert(_ content: Widget, at index: Int) {
        gtk_list_box_insert(reference, content.pointer(), Int32(index))
    }

    func remove(at index: Int) {
        guard let row = gtk_list_box_get_row_at_index(reference, Int32(index)) else { return }
        gtk_list_box_remove(reference, UnsafeMutablePointer(OpaquePointer(row)))
    }
}

/// Two widgets with a movable border between them.
final class Split: Widget {
    init(_ start: Widget, _ end: Widget, position: Int32) {
        super.init(gtk_paned_new(GTK_ORIENTATION_HORIZONTAL))
        gtk_paned_set_start_child(reference, start.pointer())
        gtk_paned_set_end_child(reference, end.pointer())
        gtk_paned_set_resize_start_child(reference, 0)
        gtk_paned_set_shrink_start_child(reference, 0)
        gtk_paned_set_shrink_end_child(reference, 0)
        gtk_paned_set_position(reference, position)
    }
}

/// A widget that is scrolled.
final class Scroll: Widget {
    init(_ child: Widget, minimum: (width: Int32, height: Int32) = (-1, -1)) {
        super.init(gtk_scrolled_window_new())
        gtk_scrolled_window_set_child(reference, child.pointer())
        gtk_scrolled_window_set_min_content_width(reference, minimum.width)
        gtk_scrolled_window_set_min_content_height(reference, minimum.height)
        gtk_scrolled_window_set_policy(reference, GTK_POLICY_NEVER, GTK_POLICY_AUTOMATIC)
    }
}
