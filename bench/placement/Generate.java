import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.metadata.placement.UsableBroker;
import org.apache.kafka.tools.reassign.ReassignPartitionsCommand;

/** What `kafka-reassign-partitions --generate` proposes for partitions of a file, without a cluster. */
public class Generate {
    @SuppressWarnings("unchecked")
    public static void main(String[] words) throws Exception {
        List<String> lines = Files.readAllLines(Path.of(words[0]));
        List<UsableBroker> brokers = new ArrayList<>();
        for (String each : lines.get(0).split(" ")) {
            String[] parts = each.split(":");
            brokers.add(new UsableBroker(Integer.parseInt(parts[0]), Optional.of(parts[1]), false));
        }
        Map<TopicPartition, List<Integer>> now = new HashMap<>();
        for (String line : lines.subList(1, lines.size())) {
            String[] parts = line.split(" ");
            List<Integer> replicas = new ArrayList<>();
            for (String id : parts[2].split(",")) replicas.add(Integer.parseInt(id));
            now.put(new TopicPartition(parts[0], Integer.parseInt(parts[1])), replicas);
        }
        Method generate = ReassignPartitionsCommand.class.getDeclaredMethod("calculateAssignment", Map.class, List.class);
        generate.setAccessible(true);
        long begun = System.nanoTime();
        Map<TopicPartition, List<Integer>> then = (Map<TopicPartition, List<Integer>>) generate.invoke(null, now, brokers);
        double seconds = (System.nanoTime() - begun) / 1e9;
        long moves = 0;
        Map<Integer, Integer> loads = new HashMap<>();
        for (Map.Entry<TopicPartition, List<Integer>> each : then.entrySet()) {
            HashSet<Integer> fresh = new HashSet<>(each.getValue());
            for (Integer id : fresh) loads.merge(id, 1, Integer::sum);
            fresh.removeAll(now.get(each.getKey()));
            moves += fresh.size();
        }
        int most = loads.values().stream().max(Integer::compare).get();
        int least = loads.size() < brokers.size() ? 0 : loads.values().stream().min(Integer::compare).get();
        System.out.printf("{\"seconds\": %.3f, \"moves\": %d, \"least\": %d, \"most\": %d}%n", seconds, moves, least, most);
    }
}
