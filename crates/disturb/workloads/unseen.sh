# A long benchmark beside the stall ledger, which looks at the same time. Set before: seconds; SUREFOOT is the command. The benchmark
# is Perl's own work: words, hashes, expressions.
# shellcheck shell=sh disable=SC2154
set -eu
mount -t tmpfs -o size=64m none /tmp
"$SUREFOOT" stall report --duration "${seconds}s" --json >/tmp/report &
ledger=$!
perl -e '
    use Time::HiRes "time";
    my ($count, $began) = (0, time);
    while (time - $began < $ARGV[0]) {
        my %seen;
        $seen{"word" . $_ * 7 % 1009}++ for 1 .. 2000;
        my $text = join " ", sort keys %seen;
        $count++ while $text =~ /word(\d+)5 /g;
    }
    printf "{\"rate\":%.3f", $count / (time - $began);
' "$seconds"
wait "$ledger"
perl -ne '
    $long++ if /"type":"gap"/ && /"duration_ns":(\d+)/ && $1 >= 20_000_000;
    END { printf ",\"ledger_gaps\":%d}\n", $long // 0 }
' /tmp/report
