"""More ways to say what the families of the other modules do, by the family's name.

Nothing but data, hence the length. A family that is held out needs no entry.
"""

from __future__ import annotations

WORDINGS: dict[str, tuple[str, ...]] = {
    "fib": (
        "gives the term number $a of the sequence 0, 1, 1, 2, 3, 5, where each term adds the two before it",
        "produces the Fibonacci value at position $a, counting from zero",
        "tells the Fibonacci number at index $a (index 0 holds 0, index 1 holds 1)",
        "walks along the Fibonacci series and hands back entry $a",
    ),
    "is_prime": (
        "answers True only for primes: $a has exactly two divisors",
        "tells whether $a has no divisor other than 1 and itself",
        "says if the whole number $a is prime; 0 and 1 are not",
        "decides primality of $a",
    ),
    "gcd": (
        "finds the biggest integer that divides both $a and $b",
        "gives the highest common factor of $a and $b",
        "uses Euclid's algorithm to get the largest shared divisor of $a and $b",
        "works out the largest number that goes into $a and into $b without remainder",
    ),
    "lcm": (
        "finds the smallest positive number that is a multiple of both $a and $b",
        "gives the lowest common multiple of $a and $b",
        "tells the least number divisible by $a and by $b",
        "works out the smallest number both $a and $b divide evenly",
    ),
    "factorial": (
        "multiplies all whole numbers from 1 up to $a",
        "gives $a! where 0! is 1",
        "calculates the product 1 * 2 * ... * $a",
        "tells in how many orders $a things can be lined up",
    ),
    "to_roman": (
        "writes $a in Roman numerals",
        "turns a whole number such as $a into Roman notation, using I, V, X, L, C, D and M",
        "produces the Roman numeral string for $a",
        "spells $a the Roman way, so 4 becomes IV",
    ),
    "identity": (
        "builds a square matrix of size $a with ones on the diagonal and zeros elsewhere",
        "makes an $a x $a table as a list of lists: 1 on the diagonal, 0 everywhere else",
        "creates the unit matrix with $a rows",
    ),
    "power": (
        "raises $a to the exponent $b",
        "calculates $a ** $b without using the ** operator",
        "gives base $a to the exponent $b, a non-negative whole number",
        "multiplies $a by itself $b times",
    ),
    "digit_sum": (
        "sums all digits of the number $a",
        "takes a non-negative integer $a and totals its digits",
        "adds the individual digits of $a together",
        "gives the digit total of $a, so 123 gives 6",
    ),
    "reverse_number": (
        "flips the digits of $a, so 123 becomes 321",
        "writes the digits of $a backwards and gives the resulting integer",
        "turns the whole number $a around digit by digit",
    ),
    "digital_root": (
        "keeps summing the digits of $a until a single digit remains",
        "replaces $a by its digit sum again and again until it is below 10",
        "reduces $a to one digit by repeated digit sums",
    ),
    "is_armstrong": (
        "tells whether raising each digit of $a to the digit count and adding gives $a again",
        "checks if $a is a narcissistic number such as 153",
        "says if $a equals the sum of its own digits, each to the power of how many digits there are",
    ),
    "is_leap": (
        "says whether February has 29 days in the year $a",
        "tells if $a is a leap year in the Gregorian calendar",
        "decides whether the year $a has 366 days: divisible by 4, but centuries only if divisible by 400",
        "tests a year $a for being leap",
    ),
    "is_power_of_two": (
        "tells whether $a can be written as 2 ** k",
        "says if $a is one of 1, 2, 4, 8, 16 and so on",
        "tests that only one bit of $a is set",
        "checks whether dividing $a by two again and again ends exactly at one",
    ),
    "divisors": (
        "gives the list of every positive integer that divides $a evenly, smallest first",
        "collects all factors of $a from 1 to $a itself",
        "finds the numbers that go into $a without remainder",
    ),
    "prime_factors": (
        "splits $a into its prime factors, with repetition, from small to large",
        "breaks the number $a down into primes whose product is $a",
        "gives the prime decomposition of $a as a list, e.g. 12 gives [2, 2, 3]",
    ),
    "sieve": (
        "gives the list of prime numbers less than or equal to $a",
        "collects every prime that is at most $a",
        "finds all prime numbers from 2 through $a",
        "makes a list of the primes not above $a",
    ),
    "collatz": (
        "counts how many steps the 3n + 1 rule takes to bring $a down to 1",
        "halves $a when even and replaces it by 3 * $a + 1 when odd, and counts the steps until 1",
        "tells how long the Collatz process from $a runs before it reaches one",
    ),
    "to_binary": (
        "writes $a in base 2 as text without a prefix",
        "gives the bits of the whole number $a as a string of 0 and 1",
        "turns a decimal integer $a into its base-two string",
        "produces the binary form of $a, e.g. 5 gives '101'",
    ),
    "fizzbuzz": (
        (
            "plays FizzBuzz up to $a: 'Fizz' for multiples of 3, 'Buzz' for multiples of 5, 'FizzBuzz' "
            "for both, else the number as text"
        ),
        "gives a list of strings for 1..$a with Fizz, Buzz and FizzBuzz in the usual places",
        "makes the well-known list for 1 to $a where threes are Fizz and fives are Buzz",
    ),
    "pascal_row": (
        "gives the numbers of row $a in Pascal's triangle, where row 0 is [1]",
        "builds the line number $a of the triangle of binomial coefficients",
        "returns the list of binomial coefficients for $a",
    ),
    "binomial": (
        "tells in how many ways $b things can be picked from $a things",
        "counts the combinations of $b elements out of $a",
        "computes C($a, $b), the number of subsets of size $b of a set with $a members",
    ),
    "hanoi": (
        "tells how many moves a Tower of Hanoi with $a disks needs at least",
        "counts the minimal moves for moving $a Hanoi discs to another peg",
        "gives the least number of steps that solve the Hanoi puzzle of height $a",
    ),
    "clamp": (
        "keeps $a inside the bounds $b and $c",
        "returns $b if $a is too small, $c if $a is too large, otherwise $a",
        "forces $a into the interval that starts at $b and ends at $c",
        "brings $a back to the nearest limit when it lies outside $b to $c",
    ),
    "is_triangle": (
        "tells whether three lengths $a, $b and $c form a triangle",
        "says if any two of the sides $a, $b, $c together are longer than the third",
        "checks that a triangle with sides $a, $b and $c exists",
    ),
    "solve_quadratic": (
        "gives the list of real solutions of $a*x**2 + $b*x + $c = 0, empty if there are none",
        "solves the equation $a x^2 + $b x + $c = 0 over the real numbers",
        "finds the real zeros of the parabola with coefficients $a, $b, $c",
    ),
    "distance": (
        "computes how far the point ($a, $b) is from the point ($c, $d)",
        "gives the straight-line distance from ($a, $b) to ($c, $d)",
        "measures the length of the segment between ($a, $b) and ($c, $d)",
    ),
    "safe_divide": (
        "returns the quotient of $a and $b, or None when the divisor is zero",
        "gives $a / $b but None instead of an error if $b is 0",
        "calculates $a over $b, without failing for a zero denominator: then it is None",
    ),
    "compound_interest": (
        "lets a capital of $a grow for $c years with $b percent interest a year and tells the final amount",
        "gives the balance after $c years when $a earns $b percent compound interest yearly",
        "calculates what $a is worth after $c years of growth by $b percent",
    ),
    "bmi": (
        "divides the weight $a in kilograms by the square of the height $b in meters",
        "computes the BMI of a person who weighs $a kg and is $b m tall",
        "gives weight $a over height $b squared",
    ),
    "format_time": (
        "turns a number of seconds $a into a clock string such as '01:01:01'",
        "writes the duration $a, given in seconds, as hours, minutes and seconds with two digits each",
        "shows $a seconds as hh:mm:ss with leading zeros",
    ),
    "two_sum": (
        "finds where in $a two different entries add up to the target $b and gives both positions",
        "looks for a pair in $a whose total is $b and returns their indexes, None if there is no pair",
        "gives the positions of two values of $a that together make $b",
    ),
    "flatten": (
        "joins the inner lists of $a into one list",
        "removes one level of nesting from $a",
        "puts all items of the sublists of $a into a single list in order",
        "concatenates a list of lists $a",
    ),
    "deep_flatten": (
        "unpacks lists inside lists of any depth in $a into one flat list",
        "takes a nested list $a and gives all its values without nesting",
        "removes every level of nesting from $a",
    ),
    "merge_sorted": (
        "combines two already sorted lists $a and $b so that the outcome is sorted as well",
        "joins the ascending lists $a and $b into a single ascending list",
        "zips two ordered lists $a and $b together keeping the order",
        "merges $a and $b, both in ascending order",
    ),
    "binary_search": (
        "looks up $b in an ascending list $a by halving the range and gives its position or -1",
        "searches the ordered list $a for $b by bisection; -1 means not found",
        "finds the position of the target $b in sorted $a in logarithmic time, -1 if absent",
    ),
    "bubble_sort": (
        "orders $a by swapping neighbours that are in the wrong order until nothing changes",
        "returns a new list with the values of $a ascending, made with bubble sort",
        "puts $a in ascending order using repeated neighbour swaps",
    ),
    "selection_sort": (
        "orders $a by picking the smallest remaining element again and again",
        "returns the values of $a in ascending order by selection sort",
        "puts $a in order, always swapping the minimum of the rest to the front",
    ),
    "quick_sort": (
        "orders $a by splitting around a pivot recursively",
        "returns the values of $a ascending with the quicksort method",
        "partitions $a around a pivot and sorts both sides",
    ),
    "merge_sort": (
        "orders $a by sorting both halves and merging them",
        "returns the values of $a ascending with the merge sort method",
        "splits $a in halves, sorts each and combines them",
    ),
    "unique": (
        "drops repeated values of $a but keeps the first of each in its place",
        "gives every distinct value of $a once, in the order of first appearance",
        "makes a list of $a in which nothing appears twice, order unchanged",
        "filters the repeats out of $a",
    ),
    "chunk": (
        "cuts $a into pieces of $b items; the last one may be shorter",
        "groups the items of $a into sublists of length $b",
        "breaks the list $a up into parts of $b elements each",
        "divides $a into slices that hold $b values",
    ),
    "rotate": (
        "shifts all items of $a $b places to the left; those that fall off come back at the end",
        "moves the first $b elements of $a to its end",
        "turns $a left by $b steps in a circle",
    ),
    "rotate_right": (
        "shifts all items of $a $b places to the right; those that fall off come back at the front",
        "moves the last $b elements of $a to its front",
        "turns $a right by $b steps in a circle",
    ),
    "mode": (
        "tells which value of $a is the most common",
        "gives the entry that shows up most frequently in $a",
        "finds the value with the highest count in $a",
        "picks the most repeated item of $a",
    ),
    "median": (
        "gives the middle value of $a once sorted, or the mean of the two middle values",
        "finds the value in the middle of the numbers $a",
        "tells the central value of $a; for an even count it averages the two central ones",
    ),
    "mean": (
        "divides the total of $a by how many numbers there are; 0 for an empty list",
        "works out the average value of the numbers in $a, 0 when there are none",
        "gives the mean of $a",
        "averages the list $a",
    ),
    "variance": (
        "gives the mean squared deviation of $a from its mean",
        "computes how much the numbers in $a vary: the average of the squared differences from the mean",
        "calculates the variance of $a over the whole population",
    ),
    "running_sum": (
        "gives a list where each entry is the sum of all numbers of $a so far",
        "accumulates $a: position i of the outcome holds the sum of the first i + 1 values",
        "builds the partial sums of $a",
        "replaces each number of $a by the total up to it",
    ),
    "max_subarray": (
        "finds the best total that adjacent elements of $a can have",
        "gives the maximum sum over all runs of neighbouring values in $a",
        "tells the biggest sum of any consecutive stretch of $a",
    ),
    "is_sorted": (
        "tells whether $a is in non-decreasing order",
        "says if no element of $a is smaller than the one before it",
        "checks that $a goes up or stays equal all the way",
        "decides whether $a is already ordered from small to large",
    ),
    "run_length_decode": (
        "rebuilds the text from the list $a of (character, count) pairs",
        "repeats each character of the pairs in $a as often as its count says and joins everything",
        "undoes a run-length encoding $a",
    ),
    "common_prefix": (
        "finds the longest beginning that all strings in $a have in common",
        "gives the start shared by every word in $a, '' if there is none",
        "tells with which letters all the words of $a begin",
    ),
    "group_by_length": (
        "makes a dictionary from word length to the list of words of $a with that length",
        "sorts the words of $a into groups of the same number of letters",
        "collects the strings in $a by how long they are",
    ),
    "group_by_first": (
        "makes a dictionary from initial letter to the list of words of $a that begin with it",
        "collects the strings in $a by their initial character",
        "sorts the words of $a into groups that share the first letter",
    ),
    "coin_change": (
        "tells the least number of coins with values $a that pay the amount $b exactly, -1 if impossible",
        "gives the smallest count of coins of $a adding up to $b; -1 when no combination works",
        "finds how few coins from the denominations $a make the sum $b, otherwise -1",
    ),
    "permutations": (
        "lists all orders in which the items of $a can be arranged",
        "gives every arrangement of the elements of $a",
        "generates each possible ordering of $a as a list",
    ),
    "power_set": (
        "gives every subset of the items in $a, the empty one included",
        "builds the power set of $a as a list of lists",
        "lists all selections of elements of $a, from none to all",
    ),
    "intersection": (
        "keeps those values of $a that $b has too",
        "gives what the two lists $a and $b share",
        "selects the items found in both $a and $b",
        "lists the values that appear in $a and in $b",
    ),
    "difference": (
        "keeps those values of $a that $b lacks",
        "gives the items of $a except the ones found in $b",
        "filters from $a everything that appears in $b",
        "lists what is in $a but missing from $b",
    ),
    "union": (
        "joins $a and $b so that every value appears once",
        "gives all distinct values that are in $a or in $b",
        "combines both lists $a and $b, each value only once",
    ),
    "dot_product": (
        "multiplies $a and $b position by position and adds the products",
        "gives the scalar product of two vectors $a and $b",
        "sums the pairwise products of $a and $b",
    ),
    "add_vectors": (
        "adds the numbers of $a and $b position by position",
        "gives a list with the sums of entries at the same position of $a and $b",
        "sums two vectors $a and $b",
    ),
    "interleave": (
        "takes items from $a and $b in turn",
        "mixes two equally long lists $a and $b: first of one, first of the other, second of one and so on",
        "weaves $a and $b together, starting with $a",
    ),
    "linear_search": (
        "tells at which position $b first occurs in $a, -1 if it does not",
        "gives the index of the first entry of $a equal to $b, otherwise -1",
        "goes through $a one by one until $b is found; -1 if it never is",
        "locates the value $b in $a without any sorting, -1 when absent",
    ),
    "count_occurrences": (
        "tells how often $b is in $a",
        "gives the number of times the value $b shows up in $a",
        "counts the entries of $a that equal $b",
        "tallies the matches of $b in $a",
    ),
    "remove_value": (
        "drops each $b from $a",
        "gives a copy of $a that no longer has the value $b",
        "filters out whatever equals $b from $a",
        "deletes all items equal to $b from the list $a",
    ),
    "move_zeros": (
        "shifts every 0 of $a to the back while the other numbers keep their order",
        "puts the zeros of $a last without changing the order of the rest",
        "pushes zeros to the end of $a",
    ),
    "majority": (
        "finds the value that makes up more than half of $a",
        "tells which element has the absolute majority in $a",
        "gives the entry that fills over 50 percent of $a",
    ),
    "reverse_words": (
        "puts the last word of $a first and so on, words separated by spaces",
        "turns the word order of the sentence $a around",
        "gives the words of $a from last to first joined by blanks",
        "writes the sentence $a with its words backwards, each word itself unchanged",
    ),
    "reverse_string": (
        "turns $a around so that the last character comes first",
        "gives the characters of $a in the opposite order",
        "spells $a backwards",
        "flips the text $a",
    ),
    "is_palindrome": (
        "tells whether $a stays the same when reversed",
        "says if $a is equal to its mirror image",
        "decides whether $a read from right to left equals $a",
        "tests $a for being a palindrome such as 'abba'",
    ),
    "is_anagram": (
        "tells whether $a and $b consist of the same letters in another order",
        "says if rearranging the letters of $a can give $b",
        "decides whether both words $a and $b use exactly the same characters equally often",
        "checks that $b is made of the letters of $a",
    ),
    "from_roman": (
        "reads the Roman numeral $a and gives the number",
        "tells the value of Roman digits $a such as 'XIV'",
        "decodes Roman notation $a into a whole number",
    ),
    "word_count": (
        "makes a dictionary telling how many times each word is in $a",
        "tallies the words of $a",
        "counts the different words in the sentence $a and gives a dict from word to frequency",
        "maps every word of $a to its number of appearances",
    ),
    "char_count": (
        "makes a dictionary telling how many times each character is in $a",
        "tallies the letters of $a",
        "gives a dict from character to frequency for $a",
        "maps every character of $a to its number of appearances",
    ),
    "longest_word": (
        "tells which word of $a has the most letters",
        "gives the word with the greatest length in the sentence $a",
        "picks the lengthiest word from $a, the first one when tied",
    ),
    "shortest_word": (
        "tells which word of $a has the fewest letters",
        "gives the word with the smallest length in the sentence $a",
        "picks the briefest word from $a",
    ),
    "title_case": (
        "writes every word of $a with a capital first letter",
        "makes the initial of each word in $a uppercase",
        "turns 'hello world' like texts $a into 'Hello World'",
    ),
    "caesar": (
        (
            "moves each letter of $a $b positions further in the alphabet, wrapping at z, and leaves "
            "other characters alone"
        ),
        "encodes $a with the Caesar cipher and the key $b",
        "replaces every letter of $a by the one $b places later, keeping upper and lower case",
    ),
    "run_length_encode": (
        "turns $a into a list of (character, how many in a row) tuples",
        "groups equal neighbouring characters of $a and counts them",
        "compresses runs of the same character in $a to pairs",
    ),
    "balanced": (
        "tells whether all parentheses, square brackets and braces in $a match",
        "says if each opening bracket in $a has its closing partner in the proper order",
        "validates the nesting of (), [] and {} in $a",
    ),
    "from_binary": (
        "reads $a as a base-2 number and gives its value",
        "turns a string of zeros and ones $a into a whole number",
        "decodes the bits in $a to decimal",
    ),
    "levenshtein": (
        "gives the least number of insertions, deletions and replacements that turn $a into $b",
        "tells how many single-character edits separate $a from $b",
        "computes how far two words $a and $b are apart in edits",
    ),
    "lcs": (
        "tells how long the longest subsequence shared by $a and $b is",
        "gives the size of the longest common subsequence of two strings $a and $b",
        "counts the characters of the longest sequence found in order in both $a and $b",
    ),
    "is_pangram": (
        "tells whether all 26 letters occur in $a",
        "says if $a uses every letter from a to z at least once, ignoring case",
        "tests whether no letter of the alphabet is missing from $a",
    ),
    "is_isogram": (
        "tells whether no letter is used twice in $a",
        "says if every character in $a is unique",
        "decides whether $a is free of repeated characters",
    ),
    "first_unique_char": (
        "finds the earliest character that occurs exactly once in $a, None if there is none",
        "gives the first letter of $a that is not repeated anywhere, otherwise None",
        "looks for the first non-repeating character in $a",
    ),
    "acronym": (
        "joins the upper-case first letters of the words in $a",
        "makes an abbreviation from the initials of $a, like 'ASAP'",
        "takes the first letter of each word in $a and writes them in capitals",
    ),
    "snake_to_camel": (
        "rewrites a name with underscores $a so that it has capitals instead, like myName",
        "changes the naming style of $a from my_name to myName",
        "drops the underscores of $a and capitalizes what follows them",
    ),
    "camel_to_snake": (
        "rewrites a name like myName $a with underscores and small letters",
        "changes the naming style of $a from myName to my_name",
        "puts an underscore before each capital of $a and makes it lowercase",
    ),
    "repeat_string": (
        "writes $a $b times in a row",
        "glues $b copies of $a together",
        "gives the text $a over and over, $b times",
    ),
    "pad_left": (
        "adds blanks in front of $a until it is $b characters wide",
        "right-aligns $a in a field of width $b",
        "fills $a with leading spaces up to length $b",
    ),
    "count_substring": (
        "tells how many times $b can be found inside $a, overlapping matches included",
        "gives the number of places where $b starts in $a",
        "searches $a for every position at which $b begins and counts them",
    ),
    "is_subsequence": (
        "tells whether the letters of $a occur in $b in the same order, gaps allowed",
        "says if $a can be made from $b by deleting characters",
        "decides whether $a is hidden in $b in order",
    ),
    "parse_query": (
        "turns text such as 'a=1&b=2' $a into a dict of strings",
        "splits $a at & and = and gives a dictionary",
        "reads URL parameters $a into a dictionary",
    ),
    "parse_csv_line": (
        "cuts $a at the commas and removes blanks around each part",
        "gives the trimmed fields of a comma separated row $a",
        "reads one CSV line $a into a list of clean strings",
    ),
    "transpose": (
        "turns the rows of $a into columns",
        "swaps rows and columns of $a",
        "mirrors $a along its diagonal",
        "flips a table $a so that columns become rows",
    ),
    "matmul": (
        "computes the matrix multiplication $a times $b",
        "gives the product of two matrices $a and $b as a list of lists",
        "combines rows of $a with columns of $b to a product matrix",
    ),
    "invert_dict": (
        "makes the values of $a the keys and the keys the values",
        "flips $a so that each value points to its key",
        "turns a dict $a from key to value into one from value to key",
    ),
    "merge_dicts": (
        "joins two dictionaries $a and $b; where both have a key, $b wins",
        "gives a new dict with everything from $a and $b, the latter overriding",
        "combines $a and $b without changing them, preferring $b",
    ),
    "sort_by_value": (
        "orders the pairs of $a by their second part, smallest first",
        "gives the (key, value) pairs of $a in ascending order of value",
        "lists the entries of the dict $a from the lowest value to the highest",
    ),
    "diagonal": (
        "collects the entries of $a from the top left to the bottom right",
        "gives the list of $a[i][i]",
        "reads the diagonal of a square table $a",
    ),
    "trace": (
        "adds the numbers on the main diagonal of $a",
        "gives the sum of the diagonal entries of $a",
        "sums $a[0][0], $a[1][1] and so on",
    ),
    "row_sums": (
        "adds up every row of $a and gives the list of totals",
        "computes one total for each row in $a",
        "makes a list of the sums of the rows of $a",
    ),
    "rotate_matrix": (
        "turns the table $a a quarter turn to the right",
        "gives $a rotated clockwise by a right angle",
        "rotates an image $a, a list of rows, by 90 degrees to the right",
    ),
    "bfs": (
        "lists the nodes of $a level by level as reached from $b",
        "explores the adjacency dictionary $a from $b with a queue and gives the visiting order",
        "walks the graph $a from $b in breadth-first manner",
    ),
    "dfs": (
        "lists the nodes of $a in the order a deep search from $b visits them",
        "explores the adjacency dictionary $a from $b with a stack and gives the visiting order",
        "walks the graph $a from $b in depth-first manner",
    ),
}
