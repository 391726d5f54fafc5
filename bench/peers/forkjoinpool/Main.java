import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.DigestException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.RecursiveAction;
import java.util.concurrent.RecursiveTask;
import java.util.function.LongSupplier;
import java.util.stream.Stream;

/**
 * The peer "forkjoinpool" of heist's benchmark. It is started as
 *
 * <pre>java Main -suite S -case C -workers N -time 50ms</pre>
 *
 * and prints one line of JSON per metric of the case. What the cases are is defined
 * in the benchmark's package suites; a wrong answer is a line on standard error and
 * exit status 1.
 *
 * Every fork is a task for one half that is forked and joined; the other half is
 * computed in place.
 */
final class Main {
    private static final double NS = 1, MS = 1e6;

    /**
     * How long laps are repeated before they count: the compiler goes on improving
     * nqueens12 for 0.8 s, the others for less.
     */
    private static final double WARM_NS = 1e9;

    private static String suite = "", name = "";
    private static int workers = 1;
    private static double timeNs = 50 * MS;
    private static ForkJoinPool pool;

    public static void main(String[] args) {
        for (int i = 0; i < args.length; i += 2) {
            if (i + 1 == args.length) {
                throw fail(args[i] + " has no value");
            }
            String value = args[i + 1];
            switch (args[i]) {
                case "-suite" -> suite = value;
                case "-case" -> name = value;
                case "-workers" -> workers = Integer.parseInt(value);
                case "-time" -> timeNs = duration(value);
                default -> throw fail("there is no flag " + args[i]);
            }
        }
        pool = new ForkJoinPool(workers);
        if (!suite.equals("forkjoin")) {
            throw fail("there is no suite " + suite);
        }
        switch (name) {
            case "fib35" -> adding("fib", "ns/fork", NS, 14_930_351, 9_227_465, () -> pool.invoke(new Fib(35)));
            case "nqueens12" -> adding("the solutions for the queens", "ms", MS, 1, 14_200,
                () -> pool.invoke(new Queens(0xfff, 0, 0, 0xfff)));
            case "uts-t1" -> count(new Tree(19, 4, 10, 0, 0), 4_130_071);
            case "uts-t3" -> count(new Tree(42, 2000, 0, 0.124875, 8), 4_112_897);
            case "skynet" -> adding("the sum of the leaves", "ns/leaf", NS, 1_000_000, 499_999_500_000L,
                () -> pool.invoke(new Siblings(0, 1_000_000, 1)));
            case "mergesort" -> mergesort();
            case "matmul" -> matmul();
            default -> throw fail("there is no case " + suite + "/" + name);
        }
        printPeak();
    }

    /** Ends the program. It returns nothing; callers throw so that the compiler knows. */
    static RuntimeException fail(String what) {
        System.err.println(what);
        System.exit(1);
        return new IllegalStateException(what);
    }

    static void check(String what, long got, long want) {
        if (got != want) {
            throw fail("gave " + got + " for " + what + ", expected " + want);
        }
    }

    /**
     * Repeats a lap, which returns the nanoseconds that count, and prints the mean per
     * operation.
     */
    private static void laps(String metric, double unit, int ops, LongSupplier lap) {
        double warm = 0;
        while (warm < WARM_NS) {
            warm += lap.getAsLong();
        }
        double took = 0;
        int n = 0;
        do {
            took += lap.getAsLong();
            n++;
        } while (took < timeNs);
        print(metric, took / unit / ops / n);
    }

    private static void print(String metric, double value) {
        System.out.printf(Locale.ROOT,
            "{\"suite\":\"%s\",\"case\":\"%s\",\"impl\":\"forkjoinpool\",\"workers\":%d,\"metric\":\"%s\","
                + "\"value\":%f,\"min\":%f,\"max\":%f,\"runs\":1,\"better\":\"lower\",\"peer\":true}%n",
            suite, name, workers, metric, value, value, value);
    }

    /** Prints the most memory that the process had in RAM, where the system tells. */
    private static void printPeak() {
        Path status = Path.of("/proc/self/status");
        if (!Files.isReadable(status)) {
            return;
        }
        try (Stream<String> lines = Files.lines(status)) {
            lines.filter(line -> line.startsWith("VmHWM:"))
                .forEach(line -> print("peak-MB", Double.parseDouble(line.replaceAll("[^0-9]", "")) * 1024 / 1e6));
        } catch (IOException e) {
            throw fail("reading " + status + ": " + e);
        }
    }

    /** A case whose answer is a number. */
    private static void adding(String what, String metric, double unit, int ops, long want, LongSupplier compute) {
        laps(metric, unit, ops, () -> {
            long start = System.nanoTime();
            long got = compute.getAsLong();
            long took = System.nanoTime() - start;
            check(what, got, want);
            return took;
        });
    }

    private static void count(Tree tree, int want) {
        adding("the nodes of the tree", "ns/node", NS, want, want, () -> 1 + pool.invoke(new Family(tree)));
    }

    /** Reads a duration as Go writes it, such as 1m2.5s or 50ms, in nanoseconds. */
    private static double duration(String text) {
        double sum = 0;
        for (String part : text.split("(?<=[a-zµ])(?=[0-9.])")) {
            String unit = part.replaceFirst("^[0-9.]+", "");
            double number = Double.parseDouble(part.substring(0, part.length() - unit.length()));
            sum += number * switch (unit) {
                case "h" -> 3600e9;
                case "m" -> 60e9;
                case "s" -> 1e9;
                case "ms" -> 1e6;
                case "us", "µs" -> 1e3;
                case "ns" -> 1;
                default -> throw fail("-time is " + text);
            };
        }
        return sum;
    }

    /** The n-th number of splitmix64 with seed 1, from 0. */
    static long random(int n) {
        long x = 1 + (n + 1) * 0x9e3779b97f4a7c15L;
        x = (x ^ x >>> 30) * 0xbf58476d1ce4e5b9L;
        x = (x ^ x >>> 27) * 0x94d049bb133111ebL;
        return x ^ x >>> 31;
    }

    private static void mergesort() {
        int n = 1 << 22;
        long[] input = new long[n];
        for (int i = 0; i < n; i++) {
            input[i] = random(i);
        }
        long[] want = input.clone();
        Arrays.sort(want);
        long[] from = new long[n];
        long[] other = new long[n];
        laps("ns/elem", NS, n, () -> {
            System.arraycopy(input, 0, from, 0, n);
            long start = System.nanoTime();
            pool.invoke(new Sorting(from, other, 0, n, false));
            long took = System.nanoTime() - start;
            if (!Arrays.equals(from, want)) {
                throw fail("the elements are out of order");
            }
            return took;
        });
    }

    private static void matmul() {
        int n = Block.SIDE;
        double[] a = new double[n * n];
        double[] b = new double[n * n];
        double[] c = new double[n * n];
        for (int i = 0; i < n * n; i++) {
            a[i] = (random(i) >>> 11) * 0x1p-53;
            b[i] = (random(n * n + i) >>> 11) * 0x1p-53;
        }
        double sum = 0;
        for (int k = 0; k < n; k++) {
            double ofA = 0;
            double ofB = 0;
            for (int i = 0; i < n; i++) {
                ofA += (1 + i % 7) * a[i * n + k];
                ofB += b[k * n + i] * (1 + i % 5);
            }
            sum += ofA * ofB;
        }
        double want = sum;
        laps("ms", MS, 1, () -> {
            long start = System.nanoTime();
            pool.invoke(new Block(a, b, c, 0, 0, n, n));
            long took = System.nanoTime() - start;
            double got = 0;
            for (int i = 0; i < n * n; i++) {
                got += c[i] * (1 + i / n % 7) * (1 + i % n % 5);
            }
            if (!(Math.abs(got - want) <= 1e-9 * want)) {
                throw fail("gave " + got + " for the checksum of the product, expected " + want);
            }
            return took;
        });
    }
}

final class Fib extends RecursiveTask<Long> {
    private static final long serialVersionUID = 1;
    private final int n;

    Fib(int n) {
        this.n = n;
    }

    @Override
    protected Long compute() {
        if (n < 2) {
            return (long) n;
        }
        Fib half = new Fib(n - 1);
        half.fork();
        return new Fib(n - 2).compute() + half.join();
    }
}

/** A board with its first rows filled, see Board in the other programs. */
final class Queens extends RecursiveTask<Integer> {
    private static final long serialVersionUID = 1;
    private final int free, left, right, todo;

    Queens(int free, int left, int right, int todo) {
        this.free = free;
        this.left = left;
        this.right = right;
        this.todo = todo;
    }

    @Override
    protected Integer compute() {
        return count(free, left, right, todo);
    }

    private static int count(int free, int left, int right, int todo) {
        while ((todo & todo - 1) == 0) {
            if (free == 0) {
                return 1;
            }
            if (todo == 0) {
                return 0;
            }
            free ^= todo;
            left = (left | todo) << 1;
            right = (right | todo) >>> 1;
            todo = free & ~(left | right);
        }
        int upper = todo;
        for (int n = Integer.bitCount(todo) / 2; n > 0; n--) {
            upper &= upper - 1;
        }
        Queens half = new Queens(free, left, right, upper);
        half.fork();
        return count(free, left, right, todo ^ upper) + half.join();
    }
}

/** The definition of a tree: binomial if m is not 0, and else geometric. */
record Tree(int seed, int b, int depth, double q, int m, double logQ) {
    Tree(int seed, int b, int depth, double q, int m) {
        this(seed, b, depth, q, m, Math.log(1 - 1 / (1 + (double) b)));
    }

    int children(byte[] digest, int at) {
        int last = (digest[16] & 0x7f) << 24 | (digest[17] & 0xff) << 16 | (digest[18] & 0xff) << 8 | digest[19] & 0xff;
        double u = last / 2147483648.0;
        if (m == 0) {
            if (at >= depth) {
                return 0;
            }
            return (int) Math.min(100, Math.floor(Math.log(1 - u) / logQ));
        }
        if (at == 0) {
            return b;
        }
        return u < q ? m : 0;
    }
}

/** A node, and which of its children are to be counted. */
final class Family extends RecursiveTask<Integer> {
    private static final long serialVersionUID = 1;

    /** SHA-1, and the room for what it is computed of. */
    private static final class Sha {
        final MessageDigest sha;
        final byte[] origin = new byte[24];

        Sha() {
            try {
                sha = MessageDigest.getInstance("SHA-1");
            } catch (NoSuchAlgorithmException e) {
                throw new IllegalStateException(e);
            }
        }

        byte[] digest(int ordinal, int at) {
            origin[at] = (byte) (ordinal >>> 24);
            origin[at + 1] = (byte) (ordinal >>> 16);
            origin[at + 2] = (byte) (ordinal >>> 8);
            origin[at + 3] = (byte) ordinal;
            sha.update(origin, 0, at + 4);
            byte[] digest = new byte[20];
            try {
                sha.digest(digest, 0, digest.length);
            } catch (DigestException e) {
                throw new IllegalStateException(e);
            }
            return digest;
        }
    }

    private static final ThreadLocal<Sha> SHA = ThreadLocal.withInitial(Sha::new);

    private final transient Tree tree;
    private final byte[] parent;
    private final int depth, lo, hi;

    Family(Tree tree) {
        this(tree, new Sha().digest(tree.seed(), 16), 0);
    }

    private Family(Tree tree, byte[] parent, int depth) {
        this(tree, parent, depth, 0, tree.children(parent, depth));
    }

    private Family(Tree tree, byte[] parent, int depth, int lo, int hi) {
        this.tree = tree;
        this.parent = parent;
        this.depth = depth;
        this.lo = lo;
        this.hi = hi;
    }

    private Family child() {
        Sha sha = SHA.get();
        System.arraycopy(parent, 0, sha.origin, 0, parent.length);
        return new Family(tree, sha.digest(lo, parent.length), depth + 1);
    }

    @Override
    protected Integer compute() {
        return nodes();
    }

    private int nodes() {
        switch (hi - lo) {
            case 0:
                return 0;
            case 1:
                return 1 + child().nodes();
            default:
                int middle = lo + (hi - lo) / 2;
                Family upper = new Family(tree, parent, depth, middle, hi);
                upper.fork();
                return new Family(tree, parent, depth, lo, middle).nodes() + upper.join();
        }
    }
}

/** So many nodes of the same parent, one after the other. */
final class Siblings extends RecursiveTask<Long> {
    private static final long serialVersionUID = 1;
    private final long first;
    private final int size, n;

    Siblings(long first, int size, int n) {
        this.first = first;
        this.size = size;
        this.n = n;
    }

    @Override
    protected Long compute() {
        return sum(first, size, n);
    }

    private static long sum(long first, int size, int n) {
        if (n == 1) {
            if (size == 1) {
                return first;
            }
            size /= 10;
            n = 10;
        }
        int half = n / 2;
        Siblings upper = new Siblings(first + (long) half * size, size, n - half);
        upper.fork();
        return sum(first, size, half) + upper.join();
    }
}

/** Sorts from[lo, hi); the result goes to the other array if away is true. */
final class Sorting extends RecursiveAction {
    private static final long serialVersionUID = 1;
    private static final int GRAIN = 2048, INSERTION_BELOW = 24;
    private final long[] from, other;
    private final int lo, hi;
    private final boolean away;

    Sorting(long[] from, long[] other, int lo, int hi, boolean away) {
        this.from = from;
        this.other = other;
        this.lo = lo;
        this.hi = hi;
        this.away = away;
    }

    @Override
    protected void compute() {
        if (hi - lo <= GRAIN) {
            sort(from, other, lo, hi, away);
            return;
        }
        int m = lo + (hi - lo) / 2;
        Sorting upper = new Sorting(from, other, m, hi, !away);
        upper.fork();
        new Sorting(from, other, lo, m, !away).compute();
        upper.join();
        new Merging(away ? from : other, lo, m, m, hi, away ? other : from, lo).compute();
    }

    private static void sort(long[] from, long[] other, int lo, int hi, boolean away) {
        if (hi - lo < INSERTION_BELOW) {
            for (int i = lo + 1; i < hi; i++) {
                long v = from[i];
                int j = i;
                for (; j > lo && from[j - 1] > v; j--) {
                    from[j] = from[j - 1];
                }
                from[j] = v;
            }
            if (away) {
                System.arraycopy(from, lo, other, lo, hi - lo);
            }
            return;
        }
        int m = lo + (hi - lo) / 2;
        sort(from, other, lo, m, !away);
        sort(from, other, m, hi, !away);
        Merging.merge(away ? from : other, lo, m, m, hi, away ? other : from, lo);
    }
}

/** Merges two ranges of an array into another, from index to on. */
final class Merging extends RecursiveAction {
    private static final long serialVersionUID = 1;
    private static final int GRAIN = 8192;
    private final long[] source, dst;
    private final int x, xEnd, y, yEnd, to;

    Merging(long[] source, int x, int xEnd, int y, int yEnd, long[] dst, int to) {
        this.source = source;
        this.x = x;
        this.xEnd = xEnd;
        this.y = y;
        this.yEnd = yEnd;
        this.dst = dst;
        this.to = to;
    }

    @Override
    protected void compute() {
        if (xEnd - x + yEnd - y <= GRAIN) {
            merge(source, x, xEnd, y, yEnd, dst, to);
            return;
        }
        if (xEnd - x < yEnd - y) {
            new Merging(source, y, yEnd, x, xEnd, dst, to).compute();
            return;
        }
        int i = x + (xEnd - x) / 2;
        int j = lowerBound(source, y, yEnd, source[i]);
        Merging upper = new Merging(source, i, xEnd, j, yEnd, dst, to + i - x + j - y);
        upper.fork();
        new Merging(source, x, i, y, j, dst, to).compute();
        upper.join();
    }

    /** The index of the first element that is not less than v. */
    private static int lowerBound(long[] a, int lo, int hi, long v) {
        while (lo < hi) {
            int m = lo + (hi - lo) / 2;
            if (a[m] < v) {
                lo = m + 1;
            } else {
                hi = m;
            }
        }
        return lo;
    }

    static void merge(long[] source, int i, int iEnd, int j, int jEnd, long[] dst, int k) {
        while (i < iEnd && j < jEnd) {
            long a = source[i];
            long b = source[j];
            int second = b < a ? 1 : 0;
            dst[k] = Math.min(a, b);
            i += 1 - second;
            j += second;
            k++;
        }
        System.arraycopy(source, i, dst, k, iEnd - i);
        System.arraycopy(source, j, dst, k + iEnd - i, jEnd - j);
    }
}

/** A block of the product c of the matrices a and b. */
final class Block extends RecursiveAction {
    private static final long serialVersionUID = 1;
    static final int SIDE = 512;
    private static final int GRAIN = 64;
    private final double[] a, b, c;
    private final int row, column, rows, columns;

    Block(double[] a, double[] b, double[] c, int row, int column, int rows, int columns) {
        this.a = a;
        this.b = b;
        this.c = c;
        this.row = row;
        this.column = column;
        this.rows = rows;
        this.columns = columns;
    }

    @Override
    protected void compute() {
        if (Math.max(rows, columns) <= GRAIN) {
            multiply();
            return;
        }
        Block first;
        Block second;
        if (rows >= columns) {
            first = new Block(a, b, c, row, column, rows / 2, columns);
            second = new Block(a, b, c, row + rows / 2, column, rows - rows / 2, columns);
        } else {
            first = new Block(a, b, c, row, column, rows, columns / 2);
            second = new Block(a, b, c, row, column + columns / 2, rows, columns - columns / 2);
        }
        second.fork();
        first.compute();
        second.join();
    }

    private void multiply() {
        for (int i = row; i < row + rows; i++) {
            Arrays.fill(c, i * SIDE + column, i * SIDE + column + columns, 0);
        }
        for (int from = 0; from < SIDE; from += GRAIN) {
            for (int i = row; i < row + rows; i++) {
                for (int k = from; k < from + GRAIN; k++) {
                    addRow(c, i * SIDE + column, a[i * SIDE + k], b, k * SIDE + column, columns);
                }
            }
        }
    }

    /** Adds factor times a row of b to a row of c. */
    private static void addRow(double[] c, int to, double factor, double[] b, int from, int n) {
        for (int j = 0; j < n; j++) {
            c[to + j] += factor * b[from + j];
        }
    }
}
