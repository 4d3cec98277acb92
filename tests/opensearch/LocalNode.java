import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.http.HttpServerTransport;
import org.opensearch.knn.plugin.KNNPlugin;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.plugins.Plugin;
import org.opensearch.transport.Netty4Plugin;

/**
 * An OpenSearch node whose modules are on the class path. Arguments are settings, `name=value`. It prints its address
 * when it can be used, and stops when its standard input ends, so that it never outlives whoever started it.
 */
public final class LocalNode extends Node {
    private static final List<Class<? extends Plugin>> PLUGINS = List.of(Netty4Plugin.class, KNNPlugin.class);

    private LocalNode(Settings settings) {
        super(InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "local"), PLUGINS, false);
    }

    public static void main(String[] arguments) throws Exception {
        Settings.Builder settings = Settings.builder();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        try (LocalNode node = new LocalNode(settings.build())) {
            node.start();
            var http = node.injector().getInstance(HttpServerTransport.class);
            System.out.println("listening on " + http.boundAddress().publishAddress());
            while (System.in.read() >= 0) { }
        }
        System.exit(0); // threads of plugins may be left
    }
}
