import CGTK

/// The program as GTK sees it. It ends when its last window is closed.
final class Application: Object {
    init(identifier: String) {
        super.init(
            OpaquePointer(gtk_application_new(identifier, G_APPLICATION_NON_UNIQUE)!), isOwned: true
        )
    }

    /// Runs the main loop until the last window is closed. The program stays while a task of the closure has not ended.
    func run(_ start: @escaping @MainActor () async -> Void) -> Int32 {
        MainQueue.runInMainLoop()
        on("activate") { [unowned self] in
            g_application_hold(pointer())
            Task {
                Application.useStyle()
                await start()
                g_application_release(self.pointer())
            }
        }
        return g_application_run(pointer(), 0, nil)
    }

    private static func useStyle() {
        let style = Object(OpaquePointer(gtk_css_provider_new()), isOwned: true)
        gtk_css_provider_load_from_data(style.pointer(), css, -1)
        gtk_style_context_add_provider_for_display(
            gdk_display_get_default(), style.reference,
            guint(GTK_STYLE_PROVIDER_PRIORITY_APPLICATION))
    }

    private static let css = """
        .title-field { font-size: 150%; font-weight: bold; border: none; box-shadow: none; background: none; outline: none; }
        .editor textview, .editor textview text { background: none; font-size: 108%; }
        .editor textview { padding: 0 9px; }
        .editor { background: @theme_base_color; }
        .sidebar-list { background: none; }
        .note-date { opacity: 0.55; font-size: 90%; margin: 0 8px 8px 8px; }
        .sidebar-list > row { padding: 8px 12px; border-radius: 8px; margin: 2px 6px; }
        .row-title { font-weight: bold; }
        .attachments { background: @theme_bg_color; border-top: 1px solid @borders; }
        .question { font-size: 120%; font-weight: bold; }
        """
}

/// A window with a header bar, and actions that its buttons, its menu and its keys perform.
final class Window: Widget {
    private let header = Object(OpaquePointer(gtk_header_bar_new()))
    private let name = Label(style: "title").centered()
    private let state = Label(style: "subtitle").centered()

    init(of application: Application, size: (width: Int32, height: Int32)) {
        super.init(gtk_application_window_new(application.pointer()))
        gtk_window_set_titlebar(pointer(), header.pointer())
        gtk_window_set_default_size(pointer(), size.width, size.height)
        let title = Box(vertical: true, spacing: 0, name, state)
        gtk_widget_set_valign(title.pointer(), GTK_ALIGN_CENTER)
        gtk_header_bar_set_title_widget(header.reference, title.pointer())
    }

    var size: (width: Int32, height: Int32) {
        var (width, height): (Int32, Int32) = (0, 0)
        gtk_window_get_default_size(pointer(), &width, &height)
        return (width, height)
    }

    /// Shows a name and a state in the header bar, and to the window manager.
    func setTitle(_ title: String, _ subtitle: String) {
        (name.text, state.text) = (title, subtitle)
        gtk_window_set_title(pointer(), "\(title) – \(subtitle)")
    }

    func show(_ content: Widget) {
        gtk_window_set_child(pointer(), content.pointer())
        present()
    }

    func present() { gtk_window_present(pointer()) }

    func destroy() { gtk_window_destroy(pointer()) }

    func addToHeader(start: [Widget], end: [Widget]) {
        for widget in start { gtk_header_bar_pack_start(header.reference, widget.pointer()) }
        for widget in end { gtk_header_bar_pack_end(header.reference, widget.pointer()) }
    }

    // MARK: - Actions

    /// Adds an action, `win.NAME`, with keys such as `<Control>z`.
    func addAction(_ name: String, key: String? = nil, _ body: @escaping @MainActor () -> Void) {
        let action = Object(g_simple_action_new(name, nil), isOwned: true)
        action.on("activate", body)
        g_action_map_add_action(reference, action.reference)
        guard let key, let application = gtk_window_get_application(pointer()) else { return }
        key.withCString { key in
            var keys = [key, nil]
            gtk_application_set_accels_for_action(application, "win.\(name)", &keys)
        }
    }

    func enableAction(_ name: String, _ isEnabled: Bool) {
        let action = g_action_map_lookup_action(reference, name)
        g_simple_action_set_enabled(action, isEnabled ? 1 : 0)
    }

    /// A button with a menu of actions, in sections.
    static func menuButton(_ sections: [[(title: String, action: String)]]) -> Widget {
        let menu = Object(g_menu_new(), isOwned: true)
        for entries in sections {
            let section = Object(g_menu_new(), isOwned: true)
            for entry in entries { g_menu_append(section.reference, entry.title, entry.action) }
            g_menu_append_section(menu.reference, nil, menuModel(section))
        }
        let button = Widget(gtk_menu_button_new())
        gtk_menu_button_set_icon_name(button.reference, "open-menu-symbolic")
        gtk_menu_button_set_menu_model(button.reference, menuModel(menu))
        gtk_menu_button_set_primary(button.reference, 1)
        return button
    }

    private static func menuModel(_ menu: Object) -> UnsafeMutablePointer<GMenuModel> {
        menu.pointer()
    }
}
