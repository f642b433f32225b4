// Client URL [AUTHORIZATION]: status and body with java.net.http, and what Java's own resolver says of the name.
import java.net.InetAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

public class Client {
    public static void main(String[] words) throws Exception {
        URI uri = URI.create(words[0]);
        System.out.println("resolved " + InetAddress.getByName(uri.getHost()).getHostAddress());
        HttpRequest.Builder request = HttpRequest.newBuilder(uri);
        if (words.length > 1) request.header("Authorization", words[1]);
        HttpResponse<String> answer = HttpClient.newHttpClient().send(request.build(), HttpResponse.BodyHandlers.ofString());
        System.out.println(answer.statusCode() + " " + answer.version() + " " + answer.body());
        System.exit(answer.statusCode() == 200 ? 0 : 22);
    }
}
